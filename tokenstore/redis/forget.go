package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// List implements session.Backend, by the sorted set of all keys: a page costs
// the logarithm of their number, and one read a key. Other scripts wait for it,
// some milliseconds for the longest page.
func (b *Backend) List(ctx context.Context, prefix string, after tokenstore.Key, limit int) (page []tokenstore.Listed, next tokenstore.Key, err error) {
	records, more, err := b.Keys(ctx, prefix, string(after), limit)
	for _, r := range records {
		l := tokenstore.Listed{Key: r.Key, Record: r.Record}
		if r.Err != nil && !errors.As(r.Err, &l.Damaged) {
			return nil, "", r.Err
		}
		page = append(page, l)
	}
	return page, tokenstore.Key(more), err
}

// Forget implements session.Backend. The script compares the record's bytes.
func (b *Backend) Forget(ctx context.Context, key tokenstore.Key, was tokenstore.Record) error {
	a, err := b.run(ctx, b.main, forgetScript, string(key), encodeToken(was.Highest), encodeWhen(was.RaisedAt), was.Holder)
	if err != nil {
		return err
	}
	switch a.word {
	case "ok":
		return nil
	case "changed":
		return &tokenstore.InUseError{Key: key, Why: "its token was raised meanwhile"}
	case "open":
		return &tokenstore.InUseError{Key: key, Why: "a proxy has an entry open on it"}
	case "leased":
		return &tokenstore.InUseError{Key: key, Why: "its lease is held"}
	case "damaged":
		return &tokenstore.DamagedError{Key: key, Why: "what Redis has there is not a record of ours"}
	}
	return fmt.Errorf("%w: %q", errShape, a.word)
}
