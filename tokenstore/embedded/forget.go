package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var _ tokenstore.Forgetter = (*Store)(nil)

// Forget implements tokenstore.Forgetter. It goes through the committer like a
// raise, so that both are in the order of the log, and many share a sync. Once
// it is in a batch it is waited for: the caller must know.
func (s *Store) Forget(ctx context.Context, key tokenstore.Key, was tokenstore.Record) error {
	marks := []tokenstore.Mark{{Key: key}}
	if err := tokenstore.CheckMarks(marks); err != nil {
		return err
	}
	if err := s.usable(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return tokenstore.Unavailable(context.Cause(ctx))
	}
	r := newRequest(marks)
	r.forget = &was
	if !s.group.enqueue(r) {
		return tokenstore.Unavailable(errClosed)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
	}
	if s.group.takeBack(r) {
		return tokenstore.Unavailable(context.Cause(ctx))
	}
	return <-r.done
}

// errForgotten: raises of a key wait while it is forgotten, so that none comes
// in the same batch. One that does all the same is not told what is not true.
var errForgotten = errors.New("the key is being forgotten; ask again")

// refusal is why nothing can be said of a slot's record.
func (s *slot) refusal() error {
	switch {
	case s.err != nil:
		return s.err
	case s.left:
		return tokenstore.Unavailable(errForgotten)
	}
	return nil
}

// forget takes the removal of a record into the batch. Where the record was
// changed in this very batch, the log would need two entries of the key in one
// frame: it is refused like any other change.
func (b *batch) forget(key tokenstore.Key, was tokenstore.Record) error {
	s := b.slot(key)
	switch err := s.refusal(); {
	case err != nil:
		return err
	case !s.ok:
		return nil
	case s.dirty || !s.rec.Same(was):
		return &tokenstore.InUseError{Key: key, Why: "its token was raised meanwhile"}
	}
	switch l, err := b.lease(key); {
	case err != nil:
		return err
	case l.Held():
		return &tokenstore.InUseError{Key: key, Why: fmt.Sprintf("its lease is held by %q", l.Holder)}
	}
	b.set(s, tokenstore.Record{})
	s.ok, s.left = false, true
	return nil
}
