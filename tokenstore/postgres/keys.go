package postgres

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// KeyRecord is what is on record of one key.
type KeyRecord struct {
	Key tokenstore.Key
	tokenstore.Record
}

// maxPage is how many records one call of Keys returns, and of Import takes.
const maxPage = 1000

// row is a record as a statement reads it.
type row struct {
	highest  []byte
	raisedAt *time.Time
	holder   []byte
}

func (r *row) record(key tokenstore.Key) (rec tokenstore.Record, err error) {
	if err := rec.Highest.UnmarshalBinary(r.highest); err != nil {
		return tokenstore.Record{}, &tokenstore.DamagedError{Key: key, Why: err.Error()}
	}
	if r.raisedAt != nil {
		rec.RaisedAt = *r.raisedAt
	}
	rec.Holder = string(r.holder)
	return rec, nil
}

// Load implements session.Backend.
func (b *Backend) Load(ctx context.Context, key tokenstore.Key) (rec tokenstore.Record, ok bool, err error) {
	var r row
	err = call(ctx, b.work, b.sql.load, []any{[]byte(key)}, []any{&r.highest, &r.raisedAt, &r.holder}, func() (err error) {
		rec, err = r.record(key)
		ok = err == nil
		return err
	})
	if err != nil {
		return tokenstore.Record{}, false, err
	}
	return rec, ok, nil
}

// Keys lists the keys that begin with prefix and come after one, in the order
// of their bytes: at most limit of them, or 1,000. next, where it is not empty,
// is what to go on after. A damaged record ends the list with a
// *tokenstore.DamagedError.
func (b *Backend) Keys(ctx context.Context, prefix, after string, limit int) (records []KeyRecord, next string, err error) {
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	var r row
	var key []byte
	err = call(ctx, b.work, b.sql.list, []any{[]byte(after), []byte(prefix), behind(prefix), limit + 1}, []any{&key, &r.highest, &r.raisedAt, &r.holder}, func() error {
		rec, err := r.record(tokenstore.Key(key))
		records = append(records, KeyRecord{tokenstore.Key(key), rec})
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(records) > limit {
		records = records[:limit]
		next = string(records[limit-1].Key)
	}
	return records, next, nil
}

// behind is the first text behind all that begin with prefix; nil is the end.
func behind(prefix string) []byte {
	b := bytes.TrimRight([]byte(prefix), "\xff")
	if len(b) == 0 {
		return nil
	}
	b[len(b)-1]++
	return b
}

// Import raises keys to what records say, at most 1,000, all in one step. Where
// a higher token is on record that one stays. RaisedAt and Holder come with a
// token; Clear does not. A key is named once.
func (b *Backend) Import(ctx context.Context, records []KeyRecord) error {
	if len(records) > maxPage {
		return fmt.Errorf("%d records in one step (at most %d are allowed)", len(records), maxPage)
	}
	// In the order of keys, in which everybody locks them.
	records = slices.SortedFunc(slices.Values(records), func(a, b KeyRecord) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	n := len(records)
	keys, tokens, raised, holders := make([][]byte, n), make([][]byte, n), make([]time.Time, n), make([][]byte, n)
	for i := range records {
		r := &records[i]
		if i > 0 && r.Key == records[i-1].Key {
			return fmt.Errorf("key %s is named twice in one step", r.Key)
		}
		keys[i], tokens[i], raised[i], holders[i] = []byte(r.Key), encode(r.Highest), r.RaisedAt, []byte(r.Holder)
	}
	return call(ctx, b.work, b.sql.restore, []any{keys, tokens, raised, holders}, nothing, noRow)
}
