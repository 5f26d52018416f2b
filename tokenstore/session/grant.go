package session

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// grant is one use of one or more holds of one session.
type grant struct {
	store    *Store
	life     *life
	one      *hold   // by far the most frequent
	more     []*hold // beside it
	raised   bool    // its transaction has raised a record
	released atomic.Bool
}

var (
	_ tokenstore.Grant  = (*grant)(nil)
	_ tokenstore.Raiser = (*grant)(nil)
)

// Raised implements tokenstore.Raiser: what this proxy or another one had on
// record already is no raise.
func (g *grant) Raised() bool { return g.raised }

// Drained implements tokenstore.Grant: R3 for every hold. Being live once is
// enough: the entry stays as long as the grant is not released.
func (g *grant) Drained(ctx context.Context) error {
	err := g.drained(ctx, g.one)
	if err != nil || len(g.more) == 0 {
		return err
	}
	for range 2 { // once more: one may have been overtaken while another was waited for
		for _, h := range g.more {
			if err := g.drained(ctx, h); err != nil {
				return err
			}
		}
	}
	return g.drained(ctx, g.one)
}

func (g *grant) drained(ctx context.Context, h *hold) error {
	if g.released.Load() {
		return tokenstore.Unavailable(errors.New("the grant was released"))
	}
	if h.entry.Unordered() { // it waits for nothing
		if g.life.over() {
			return tokenstore.Unavailable(context.Cause(g.life.ctx))
		}
		return nil
	}
	for {
		h.shard.mu.Lock()
		p, drained, seen, passed := h.phase, h.drained, h.slot.seen, h.slot.passed(h.entry.Token)
		h.shard.mu.Unlock()
		switch {
		case g.life.over():
			return tokenstore.Unavailable(context.Cause(g.life.ctx))
		case passed:
			return &tokenstore.StaleError{Key: h.entry.Key, Token: h.entry.Token, Highest: seen}
		case p == live:
			return nil
		case p != waiting:
			return tokenstore.Unavailable(errNone)
		}
		select {
		case <-drained:
		case <-g.life.ctx.Done():
		case <-ctx.Done():
			return tokenstore.Unavailable(context.Cause(ctx))
		}
	}
}

// MaySend implements tokenstore.Grant (R5).
func (g *grant) MaySend() bool { return !g.released.Load() && g.life.maySend(g.store.opts.Clock()) }

// Lost implements tokenstore.Grant: it is closed with the session.
func (g *grant) Lost() <-chan struct{} { return g.life.ctx.Done() }

// Release implements tokenstore.Grant (R6).
func (g *grant) Release() {
	if g.released.Swap(true) {
		return
	}
	g.store.giveBack(g.one)
	for _, h := range g.more {
		g.store.giveBack(h)
	}
}

func (s *Store) giveBack(h *hold) {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	s.release(h)
}
