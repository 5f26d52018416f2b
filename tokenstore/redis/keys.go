package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

// maxKeys is how many keys one step lists or imports.
const maxKeys = 1000

// List implements session.Backend, by the sorted set of all keys: a page costs
// the logarithm of their number, and one read a key. Other scripts wait for it,
// some milliseconds for the longest page.
func (b *Backend) List(ctx context.Context, prefix string, after tokenstore.Key, limit int) (list []tokenstore.Listed, next tokenstore.Key, err error) {
	if limit <= 0 || limit > maxKeys {
		limit = maxKeys
	}
	from := "[" + prefix
	if string(after) >= prefix && after != "" {
		from = "(" + string(after)
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
			return list, list[limit-1].Key, nil
		}
		l := tokenstore.Listed{Key: tokenstore.Key(pairs[i])}
		rec, ok, err := decodeRecord(l.Key, pairs[i+1])
		switch l.Record = rec; {
		case err != nil && !errors.As(err, &l.Damaged):
			return nil, "", err
		case err == nil && !ok:
			l.Damaged = &tokenstore.DamagedError{Key: l.Key, Why: "it is listed, and its record is gone"}
		}
		list = append(list, l)
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

// Import implements session.Movable, in steps of maxKeys records.
func (b *Backend) Import(ctx context.Context, list []dump.Record) error {
	for len(list) > 0 {
		n := min(len(list), maxKeys)
		args := make([]any, 0, 4*n)
		for i := range list[:n] {
			r := &list[i]
			if err := tokenstore.CheckMarks([]tokenstore.Mark{{Key: r.Key}}); err != nil {
				return err
			}
			args = append(args, string(r.Key), encodeToken(r.Highest), encodeWhen(r.RaisedAt), r.Holder)
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
