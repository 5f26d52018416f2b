package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// KeyRecord is one key of a list. Err is a *tokenstore.DamagedError where its
// record cannot be read.
type KeyRecord struct {
	Key    tokenstore.Key
	Record tokenstore.Record
	Err    error
}

// maxKeys is how many keys one step lists or imports.
const maxKeys = 1000

// Keys lists the keys that begin with prefix and come after another one, in
// the order of their bytes, at most limit of them (0: as many as one step
// reads). next is what to go on after, and empty at the end. Each call reads at
// one moment; keys that are made between two calls may be missing.
func (b *Backend) Keys(ctx context.Context, prefix, after string, limit int) (list []KeyRecord, next string, err error) {
	if limit <= 0 || limit > maxKeys {
		limit = maxKeys
	}
	from := "[" + prefix
	if after >= prefix && after != "" {
		from = "(" + after
	}
	a, err := b.ok(ctx, b.main, keysScript, from, above(prefix), limit+1)
	if err != nil {
		return nil, "", tokenstore.Unavailable(err)
	}
	pairs, err := a.texts(0, 2)
	if err != nil {
		return nil, "", tokenstore.Unavailable(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if len(list) == limit {
			return list, string(list[limit-1].Key), nil
		}
		r := KeyRecord{Key: tokenstore.Key(pairs[i])}
		var ok bool
		if r.Record, ok, r.Err = decodeRecord(r.Key, pairs[i+1]); r.Err == nil && !ok {
			r.Err = &tokenstore.DamagedError{Key: r.Key, Why: "it is listed, and its record is gone"}
		}
		list = append(list, r)
	}
	return list, "", nil
}

// above is where the keys that begin with prefix end, as ZRANGEBYLEX has it.
func above(prefix string) string {
	for n := len(prefix) - 1; n >= 0; n-- {
		if b := prefix[n]; b < 0xff {
			return "(" + prefix[:n] + string([]byte{b + 1})
		}
	}
	return "+"
}

// Import raises the records of a store that no proxy uses, and keeps the
// higher token where there is one: for moving a store. Each call is one step.
func (b *Backend) Import(ctx context.Context, list []KeyRecord) error {
	for len(list) > 0 {
		n := min(len(list), maxKeys)
		args := make([]any, 0, 4*n)
		for i := range list[:n] {
			r := &list[i]
			if r.Err != nil {
				return r.Err
			}
			if err := tokenstore.CheckMarks([]tokenstore.Mark{{Key: r.Key}}); err != nil {
				return err
			}
			args = append(args, string(r.Key), encodeToken(r.Record.Highest), encodeWhen(r.Record.RaisedAt), r.Record.Holder)
		}
		a, err := b.run(ctx, b.main, importScript, args...)
		switch {
		case err != nil:
			return tokenstore.Unavailable(err)
		case a.word == "used":
			return errors.New("proxies use this store, or have left it a moment ago; stop them, and wait until linger is over")
		case a.word == "damaged":
			key, _ := a.text(0)
			return &tokenstore.DamagedError{Key: tokenstore.Key(key), Why: "what Redis has there is not a record of ours"}
		case a.word != "ok":
			return fmt.Errorf("%w: %q", errShape, a.word)
		}
		list = list[n:]
	}
	return nil
}
