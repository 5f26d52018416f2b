package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// maxPage is how many records one call of Keys returns.
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

// List implements session.Backend, by the index of the keys.
func (b *Backend) List(ctx context.Context, prefix string, after tokenstore.Key, limit int) (list []tokenstore.Listed, next tokenstore.Key, err error) {
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	var r row
	var key []byte
	err = call(ctx, b.work, b.sql.list, []any{[]byte(after), []byte(prefix), behind(prefix), limit + 1}, []any{&key, &r.highest, &r.raisedAt, &r.holder}, func() error {
		l := tokenstore.Listed{Key: tokenstore.Key(key)}
		rec, err := r.record(l.Key)
		if l.Record = rec; err != nil && !errors.As(err, &l.Damaged) {
			return err
		}
		list = append(list, l)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	if len(list) > limit {
		list = list[:limit]
		next = list[limit-1].Key
	}
	return list, next, nil
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

// Import implements session.Movable, in one step.
func (b *Backend) Import(ctx context.Context, records []dump.Record) error {
	if len(records) > session.MaxImport {
		return fmt.Errorf("%d records in one step (at most %d are allowed)", len(records), session.MaxImport)
	}
	// In the order of keys, in which everybody locks them.
	records = slices.SortedFunc(slices.Values(records), func(a, b dump.Record) int { return cmp.Compare(string(a.Key), string(b.Key)) })
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
