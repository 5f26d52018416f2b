package session

import (
	"context"
	"errors"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var (
	_ tokenstore.Lister    = (*Store)(nil)
	_ tokenstore.Forgetter = (*Store)(nil)
)

// List implements tokenstore.Lister.
func (s *Store) List(ctx context.Context, prefix string, after tokenstore.Key, limit int) (page []tokenstore.Listed, next tokenstore.Key, err error) {
	if s.ctx.Err() != nil {
		return nil, "", tokenstore.Unavailable(errClosed)
	}
	err = s.call(ctx, OpList, func(ctx context.Context) (err error) {
		page, next, err = s.backend.List(ctx, prefix, after, tokenstore.PageSize(limit))
		return err
	})
	if err != nil {
		return nil, "", unavailable(err)
	}
	return page, next, nil
}

// Forget implements tokenstore.Forgetter. An entry of this proxy that nothing
// uses is given back first (R6), as when it is idle for long; those of others
// refuse it, used or not: nobody but they can know.
func (s *Store) Forget(ctx context.Context, key tokenstore.Key, was tokenstore.Record) error {
	if err := tokenstore.CheckMarks([]tokenstore.Mark{{Key: key}}); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return tokenstore.Unavailable(errClosed)
	}
	if err := s.giveUp(ctx, key); err != nil {
		return unavailable(err)
	}
	err := s.call(ctx, OpForget, func(ctx context.Context) error { return s.backend.Forget(ctx, key, was) })
	if used := (*tokenstore.InUseError)(nil); errors.As(err, &used) {
		return used
	}
	return unavailable(err)
}

// giveUp shuts what this proxy holds of a key and does not use, and waits until
// its entries are gone from the store.
func (s *Store) giveUp(ctx context.Context, key tokenstore.Key) error {
	var batch []removal
	sh := s.table.of(key)
	sh.mu.Lock()
	if sl := sh.slots[key]; sl != nil {
		for h := sl.holds; h != nil; h = h.next {
			if h.uses > 0 || h.phase == acquiring {
				sh.mu.Unlock()
				return &tokenstore.InUseError{Key: key, Why: "a write of this proxy has an entry open in the store"}
			}
		}
		for h := sl.holds; h != nil; h = h.next {
			s.shut(h)
			// It is on its way out already, with all the others: this one is waited
			// for. Deleting an entry twice does no harm.
			batch = append(batch, removal{h.entry, h})
		}
	}
	sh.mu.Unlock()
	for len(batch) > 0 {
		n := min(len(batch), MaxBatch)
		if err := s.delete(ctx, batch[:n]); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// unavailable makes an error of a backend one of a store.
func unavailable(err error) error {
	used := (*tokenstore.InUseError)(nil)
	if err == nil || errors.Is(err, tokenstore.ErrUnavailable) || errors.As(err, &used) {
		return err
	}
	return tokenstore.Unavailable(err)
}
