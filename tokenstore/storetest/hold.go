package storetest

import (
	"context"
	"errors"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// errLost is why a lost grant does not drain.
var errLost = errors.New("the session of this grant is over")

// hold is a place where calls wait until it is released.
type hold struct {
	released chan struct{}
	// givenUp are the marks of the calls that left while held, in the order in
	// which they left, where they are to be recorded late.
	givenUp [][]tokenstore.Mark
}

// hold puts a hold at one place; a second hold at the same place joins the
// first.
func (f *Faulty) hold(place **hold) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *place == nil {
		*place = &hold{released: make(chan struct{})}
	}
	h := *place
	return func() { f.release(place, h) }
}

// release lets the calls at h go on, after it has recorded what was given up
// there. Those records are made by the releasing goroutine, so that a test
// knows that they are made.
func (f *Faulty) release(place **hold, h *hold) {
	f.mu.Lock()
	if *place != h {
		f.mu.Unlock()
		return
	}
	*place = nil
	givenUp := h.givenUp
	h.givenUp = nil
	f.mu.Unlock()
	for _, marks := range givenUp {
		// What became of it is nobody's business: its caller has left.
		if grant, err := f.inner.Acquire(context.Background(), marks); err == nil {
			grant.Release()
		}
	}
	close(h.released)
}

// wait waits at one place while it is held. Its error wraps ErrUnavailable and
// says that ctx ended first.
func (f *Faulty) wait(ctx context.Context, place **hold, marks []tokenstore.Mark) error {
	f.mu.Lock()
	h := *place
	if h == nil {
		f.mu.Unlock()
		return nil
	}
	f.counts.Waiting++
	f.mu.Unlock()
	defer f.set(func() { f.counts.Waiting-- })
	select {
	case <-h.released:
		return nil
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.late && len(marks) > 0 && *place == h {
		h.givenUp = append(h.givenUp, append([]tokenstore.Mark(nil), marks...))
	}
	return tokenstore.Unavailable(context.Cause(ctx))
}

// faultyGrant is a grant of a shared Faulty.
type faultyGrant struct {
	f     *Faulty
	inner tokenstore.Grant
	marks []tokenstore.Mark
	lost  chan struct{}
}

// wrap makes a grant answer to the commands. The grant of a store of one proxy
// is handed on as it is: the contract says that it is never lost.
func (f *Faulty) wrap(grant tokenstore.Grant, marks []tokenstore.Mark) tokenstore.Grant {
	if !f.shared {
		return grant
	}
	g := &faultyGrant{f: f, inner: grant, marks: append([]tokenstore.Mark(nil), marks...), lost: make(chan struct{})}
	f.set(func() { f.live[g] = struct{}{} })
	return g
}

// Drained waits while the drains are held, and then tells whether another
// proxy has overtaken the grant meanwhile (R3).
func (g *faultyGrant) Drained(ctx context.Context) error {
	if err := g.f.wait(ctx, &g.f.drains, nil); err != nil {
		return err
	}
	for _, m := range g.marks {
		rec, ok, err := g.f.inner.Load(ctx, m.Key)
		if err != nil {
			return err
		}
		if ok && m.Token.Less(rec.Highest) {
			return &tokenstore.StaleError{Key: m.Key, Token: m.Token, Highest: rec.Highest}
		}
	}
	if !g.holds() {
		return tokenstore.Unavailable(errLost)
	}
	return g.inner.Drained(ctx)
}

func (g *faultyGrant) MaySend() bool {
	g.f.mu.Lock()
	refused := g.f.noSend
	g.f.mu.Unlock()
	return !refused && g.holds() && g.inner.MaySend()
}

func (g *faultyGrant) Lost() <-chan struct{} { return g.lost }

func (g *faultyGrant) Release() {
	g.f.set(func() { delete(g.f.live, g) })
	g.inner.Release()
}

// holds reports whether the grant is neither lost nor released.
func (g *faultyGrant) holds() bool {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	_, live := g.f.live[g]
	return live
}
