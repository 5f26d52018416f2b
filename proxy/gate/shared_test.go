package gate

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// lease is a grant of a store that other proxies share.
type lease struct {
	drained  chan struct{}
	stale    chan *tokenstore.StaleError
	lost     chan struct{}
	over     atomic.Bool
	released atomic.Int32
}

func (l *lease) Drained(ctx context.Context) error {
	select { // first: what is not waited for does not depend on ctx
	case <-l.drained:
		return nil
	default:
	}
	select {
	case <-l.drained:
		return nil
	case err := <-l.stale:
		return err
	case <-ctx.Done():
		return tokenstore.Unavailable(ctx.Err())
	}
}
func (l *lease) MaySend() bool         { return !l.over.Load() }
func (l *lease) Lost() <-chan struct{} { return l.lost }
func (l *lease) Release()              { l.released.Add(1) }

// keeping is a store that gives some grants without I/O.
type keeping struct {
	*disk
	held func(tokenstore.Mark) (tokenstore.Grant, bool)
}

func (k keeping) Held(m tokenstore.Mark) (tokenstore.Grant, bool) { return k.held(m) }

func inSharedTime(t *testing.T, f func(r *rig, last func() *lease)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gate.Stop()
		r.disk.raised = make(chan tokenstore.Mark)
		var grants []*lease
		r.disk.grant = func() tokenstore.Grant {
			grants = append(grants, &lease{drained: make(chan struct{}), stale: make(chan *tokenstore.StaleError), lost: make(chan struct{})})
			return grants[len(grants)-1]
		}
		r.boot()
		f(r, func() *lease { return grants[len(grants)-1] })
		r.gate.Stop()
		after(time.Hour)
		for i, g := range grants {
			if g.released.Load() != 1 {
				t.Errorf("grant %d was released %d times", i, g.released.Load())
			}
		}
	})
}

// Over a shared store every write has a grant, and waits for other proxies.
func TestSharedWaitsForOthers(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		w1 := r.start("w1", 1).mustWait()
		close(last().drained)
		synctest.Wait()
		w1.mustBeSent()
		w1b := r.start("w1 too", 1).mustWait()
		w1b.leave()
		synctest.Wait()
		w1b.mustFail(ErrLeft)
		w1.answer()
	})
}

// told is a grant that tells whether a record was raised for it.
type told struct {
	*lease
	raised bool
}

func (g told) Raised() bool { return g.raised }

// Only a write for which a record was raised counts as one that raised it: the
// token of the first one here may be on record already, from another proxy.
func TestSharedRaised(t *testing.T) {
	for raised, why := range map[bool]string{true: "the first of all", false: "the first here"} {
		t.Run(why, func(t *testing.T) {
			inSharedTime(t, func(r *rig, last func() *lease) {
				untold := r.disk.grant
				r.disk.grant = func() tokenstore.Grant { return told{untold().(*lease), raised} }
				w := r.start("w", 1).mustWait()
				close(last().drained)
				synctest.Wait()
				if got := w.mustBeSent().ticket.Waited().Raised; got != raised {
					t.Errorf("raised: %v, want %v", got, raised)
				}
				w.answer()
			})
		})
	}
}

// A raise at another proxy overtakes the writes that wait here, and passes
// those in flight.
func TestSharedRaisedElsewhere(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		w1 := r.start("w1", 1)
		close(last().drained)
		synctest.Wait()
		w1.mustBeSent()
		w2 := r.start("w2", 2).mustWait()
		close(last().drained)
		synctest.Wait()
		w2.mustWait() // for w1, here
		r.disk.raised <- tokenstore.Mark{Key: "k", Token: tok(3)}
		synctest.Wait()
		w2.mustBeStale(true)
		if !closed(w1.ticket.Overtaken()) {
			t.Error("w1 was not told")
		}
		w1.answer()
	})
}

// A grant that does not hold any more admits nothing (R5).
func TestSharedSessionOver(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		w1 := r.start("w1", 1).mustWait()
		last().over.Store(true)
		close(last().drained)
		synctest.Wait()
		w1.mustFail(tokenstore.ErrUnavailable)
	})
}

// Overtaken at another proxy while it waits for it: stale, by what is on
// record, and its grant is given back (R3, R6).
func TestSharedOvertakenElsewhere(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		w1 := r.start("w1", 1).mustWait()
		last().stale <- &tokenstore.StaleError{Key: "k", Highest: tok(5)}
		synctest.Wait()
		w1.mustBeStale(true)
		if last().released.Load() != 1 {
			t.Error("its grant is kept")
		}
		acquires := r.disk.acquires
		r.start("w4", 4).mustBeStale(false)
		if r.disk.acquires != acquires {
			t.Error("what was learnt is forgotten")
		}
	})
}

// The wait for other proxies is a drain: it ends with drain_timeout, with a
// stop, and with the session (R10).
func TestSharedDrainEnds(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		w := r.startOn("w", time.Minute, on("k", 1)).mustWait()
		after(time.Minute)
		var drain *DrainTimeoutError
		if w.look(); !errors.As(w.err, &drain) || drain.Key != "k" {
			t.Errorf("%v", w.err)
		}
		first := r.start("first", 1)
		close(last().drained)
		synctest.Wait()
		first.mustBeSent()
		second := r.start("second", 2)
		close(last().drained)
		synctest.Wait()
		second.mustWait() // for first, here
		close(last().lost)
		synctest.Wait()
		second.mustFail(tokenstore.ErrUnavailable)
		first.answer()
		third := r.start("third", 3).mustWait()
		r.gate.Stop()
		synctest.Wait()
		third.mustFail(ErrStopping)
	})
}

// A fenced read gives its grant back when it is admitted, and may be sent all
// the same.
func TestSharedRead(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		read := r.read("read", on("k", 1)).mustWait()
		close(last().drained)
		synctest.Wait()
		last().over.Store(true)
		if read.look(); read.err != nil || last().released.Load() != 1 || !read.ticket.MaySend() {
			t.Errorf("%v, released %d times, may be sent: %v", read.err, last().released.Load(), read.ticket.MaySend())
		}
	})
}

// A key that nobody knows here costs one round trip, not two; where a bound
// counts from the highest token, two.
func TestSharedColdKey(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		r.disk.records["k"] = tokenstore.Record{Highest: tok(5)}
		release := r.disk.hold(&r.disk.holdLoad) // a read would hang
		if err := r.gate.Check(r.Context(), []Claim{on("k", 4)}, time.Minute, new(Ticket)); err != nil {
			t.Error(err)
		}
		r.start("w4", 4).mustBeStale(false)
		w6 := r.start("w6", 6).mustWait()
		close(last().drained)
		synctest.Wait()
		w6.mustBeSent().answer()
		release()
		err := r.gate.Check(r.Context(), []Claim{{Key: "other", Token: tok(1), MaxJump: 1}}, time.Minute, new(Ticket))
		if err != nil {
			t.Error(err)
		}
	})
}

// A grant that the store has costs no I/O, and decides nothing else: what is
// overtaken, or has to wait for older writes here, or comes while the proxy
// stops, is not admitted on it, and what was held for it is given back (R4).
func TestSharedHeld(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		var asked []tokenstore.Mark
		have := true
		r.gate.Stop()
		g, err := New(keeping{r.disk, func(m tokenstore.Mark) (tokenstore.Grant, bool) {
			asked = append(asked, m)
			if !have {
				return nil, false
			}
			return r.disk.grant(), true
		}}, r.opts)
		if err != nil {
			t.Fatal(err)
		}
		r.gate = g
		have = false
		w1 := r.start("w1", 1)
		close(last().drained)
		synctest.Wait()
		w1.mustBeSent()
		have = true
		acquires := r.disk.acquires
		w1b := r.start("w1b", 1).mustBeSent()
		if w1b.ticket.Lost() != last().lost || r.disk.acquires != acquires || w1b.ticket.Waited() != (Waited{}) {
			t.Errorf("it waited, or has not the grant that was kept: %+v", w1b.ticket.Waited())
		}
		if m := asked[len(asked)-1]; m != (tokenstore.Mark{Key: "k", Token: tok(1)}) {
			t.Errorf("asked for %+v", m)
		}
		have = false
		w2 := r.start("w2", 2).mustWait()
		close(last().drained)
		synctest.Wait()
		w2.mustWait() // for those with 1, here
		have = true
		w2b := r.start("w2b", 2).mustWait()
		close(last().drained)
		synctest.Wait()
		w2b.mustWait()
		r.start("stale", 1).mustBeStale(false) // whatever the store has kept
		w1.answer()
		w1b.answer()
		w2.mustBeSent()
		w2b.mustBeSent()
		r.gate.Stop()
		r.start("late", 2).mustFail(ErrStopping)
		w2.answer()
		w2b.answer()
	})
}

// What the store has kept is of one key and for a write. Several keys take theirs
// together, or one of them would be written on without an entry (R2), and a read
// gives its own back before it is sent (R6).
func TestSharedHeldIsForOneWrite(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		r.gate.Stop()
		g, err := New(keeping{r.disk, func(m tokenstore.Mark) (tokenstore.Grant, bool) {
			t.Errorf("asked for %+v", m)
			return r.disk.grant(), true
		}}, r.opts)
		if err != nil {
			t.Fatal(err)
		}
		r.gate = g
		two := r.startOn("two", time.Hour, Claim{Key: "a", Token: tok(1)}, Claim{Key: "b", Token: tok(1)}).mustWait()
		close(last().drained)
		synctest.Wait()
		two.mustBeSent().answer()
		read := r.read("read", Claim{Key: "a", Token: tok(1)}).mustWait()
		close(last().drained)
		synctest.Wait()
		read.mustBeSent()
		if n := last().released.Load(); n != 1 {
			t.Errorf("the grant of a read that was sent is released %d times", n)
		}
	})
}

// A raise at another proxy is told to the writes in flight here at once, though
// nobody here waits for them.
func TestSharedRaiseCutsAtOnce(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		w1 := r.start("w1", 1)
		close(last().drained)
		synctest.Wait()
		w1.mustBeSent()
		r.disk.raised <- tokenstore.Mark{Key: "k", Token: tok(2)}
		synctest.Wait()
		if !w1.overtaken() {
			t.Error("w1 goes on, and the other proxy waits for its client")
		}
		w1.answer()
	})
}

// A gate that stops still hears of raises at other proxies, for as long as a
// write is in flight: their new holder would wait for this one's client, who may
// never send the rest of his upload (L1).
func TestSharedRaisedElsewhereWhileItStops(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		w1 := r.start("w1", 1)
		close(last().drained)
		synctest.Wait()
		w1.mustBeSent()
		r.gate.Stop()
		idle := make(chan error)
		go func() { idle <- r.gate.Idle(context.Background()) }()
		select {
		case r.disk.raised <- tokenstore.Mark{Key: "k", Token: tok(2)}:
		case <-time.After(time.Second):
			t.Error("nobody hears of the raise")
		}
		synctest.Wait()
		if !closed(w1.ticket.Overtaken()) {
			t.Error("w1 was not told")
		}
		w1.answer()
		if err := <-idle; err != nil {
			t.Error(err)
		}
	})
}
