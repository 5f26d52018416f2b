package redis

import (
	"context"
	"fmt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

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
