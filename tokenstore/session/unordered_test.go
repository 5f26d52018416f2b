package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
)

// soon is the next look at what is waited for: an entry that is gone before the
// answer that names it is not heard of.
const soon = time.Second

// bare asks for a write on k without a token, and sends it.
func (p *proxy) bare(name string) *write {
	p.r.t.Helper()
	w := p.askFor(name, tokenstore.Mark{Key: "k", Unordered: true}).mustBeAdmitted(0)
	if !w.send() {
		p.r.t.Fatalf("%s may not be sent", name)
	}
	return w
}

// look asks for a write on k that is only looked on, and sends it.
func (p *proxy) look(name string, n uint64) *write {
	p.r.t.Helper()
	g, err := p.store.Acquire(p.r.t.Context(), []tokenstore.Mark{{Key: "k", Token: tok(n), Observed: true}})
	if err != nil {
		p.r.t.Fatalf("%s: %v", name, err)
	}
	w := &write{p: p, name: name, marks: []tokenstore.Mark{{Key: "k", Token: tok(n)}}, grant: g}
	w.sendLate()
	return w
}

// A write without a token is never refused and waits for nothing. A raise
// elsewhere waits for those that were there before it, and for no later one.
func TestUnordered(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		b.do("w5", 5)
		u1, u2 := a.bare("u1"), a.bare("u2")
		if n := a.port.Calls(session.OpAcquire); n != 1 {
			t.Errorf("%d acquires for two writes, want one: it is sticky (R4)", n)
		}
		if held, ok := a.store.Held(tokenstore.Mark{Key: "k", Unordered: true}); !ok {
			t.Error("it is not held")
		} else {
			held.Release()
		}
		if _, ok := a.store.Held(tokenstore.Mark{Key: "k"}); ok {
			t.Error("one with the lowest token is held, and only one without was admitted")
		}
		if rec, _ := r.engine.Record("k"); rec.Highest != tok(5) {
			t.Errorf("the record is %+v", rec)
		}
		w6 := b.ask("w6", 6).mustWait()
		if _, ok := a.store.Held(tokenstore.Mark{Key: "k", Unordered: true}); ok {
			t.Error("writes still come in under an entry that w6 waits for")
		}
		u3 := a.bare("u3")
		u1.mustLand()
		w6.mustWait()
		u2.mustLand()
		w6.mustBeAdmitted(soon).send()
		u3.mustLand()
		w6.mustLand()
		u4 := a.bare("u4")
		own := a.ask("w7", 7).mustWait() // of the same proxy, too
		u4.mustLand()
		own.mustBeAdmitted(soon).grant.Release()
	})
}

// The record says nothing of who came first: an acquire with a token that is on
// record already waits as well, with the lowest one too, and is heard of.
func TestUnorderedEqual(t *testing.T) {
	for _, n := range []uint64{0, 1} {
		inTime(t, func(r *rig) {
			a, b, c := r.proxy("RA"), r.proxy("RB"), r.proxy("RC")
			b.do("w", n)
			u1 := a.bare("u1")
			equal := c.ask("equal", n).mustWait()
			u2 := a.bare("u2")
			u1.mustLand()
			equal.mustBeAdmitted(soon).grant.Release()
			u2.mustLand()
			a.bare("idle").mustLand() // its entry stays, and nobody uses it
			c2 := r.proxy("RD").ask("equal too", n)
			c2.mustBeAdmitted(soon).grant.Release()
		})
	}
}

// R7: RA hears nothing of the others. Its keepalive tells it, and shuts what was
// found and not, each time anew, what has come since.
func TestUnorderedDeaf(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		b.do("w1", 1)
		a.port.Deafen(true)
		a.bare("idle").mustLand()
		b.ask("w2", 2).mustWait().mustBeAdmitted(3 * time.Second).grant.Release()
		u := a.bare("u")
		w3 := b.ask("w3", 3).mustWait()
		time.Sleep(3 * time.Second)
		later, acquires := a.bare("later"), a.port.Calls(session.OpAcquire)
		for range 4 {
			time.Sleep(3 * time.Second)
			a.bare("still later").mustLand()
		}
		if n := a.port.Calls(session.OpAcquire); n != acquires {
			t.Errorf("%d acquires more, and nobody has found what came after w3", n-acquires)
		}
		u.mustLand()
		w3.mustBeAdmitted(3 * time.Second).grant.Release()
		w4 := b.ask("w4", 4).mustWait()
		later.mustLand()
		w4.mustBeAdmitted(3 * time.Second).grant.Release()
		a.bare("idle too").mustLand()
		r.proxy("RC").ask("equal", 4).mustWait().mustBeAdmitted(3 * time.Second).grant.Release()
	})
}

// RA hears of a raise that has found its entry before it hears that this was
// put.
func TestUnorderedFoundEarly(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		b.do("w1", 1)
		a.port.Fates(func(op session.Op) (f sessiontest.Fate) {
			if op == session.OpAcquire {
				f.Travel = time.Second
			}
			return f
		})
		u := a.askFor("u", tokenstore.Mark{Key: "k", Unordered: true}).mustWait()
		r.at(1500 * time.Millisecond)
		w2 := b.ask("w2", 2).mustWait()
		u.mustBeAdmitted(soon).send()
		u.mustLand()
		w2.mustBeAdmitted(soon).grant.Release()
		if now := time.Since(r.begun); now > 2200*time.Millisecond {
			t.Errorf("w2 was admitted after %v, by a keepalive", now)
		}
	})
}

// R5, R9, R10 hold for them as for every write: RA is cut off from the store.
func TestUnorderedSessionOver(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		u := a.bare("u")
		unsent := a.askFor("unsent", tokenstore.Mark{Key: "k", Unordered: true}).mustBeAdmitted(0)
		a.port.Cut(true)
		w1 := b.ask("w1", 1).mustWait()
		r.at(ttl - margin)
		if !u.wasCut() || unsent.send() {
			t.Error("it is not cut at the deadline, or sent after it")
		}
		a.askFor("late", tokenstore.Mark{Key: "k", Unordered: true}).mustFail(tokenstore.ErrUnavailable)
		r.at(ttl - margin + settle)
		w1.mustWait()
		u.mustLand()
		w1.mustBeAdmitted(margin + 3*time.Second).send()
		w1.mustLand()
	})
}

// R8: nobody knows of an entry whose acquire has an unknown result.
func TestUnorderedLost(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		b.do("w1", 1)
		a.port.Fates(func(op session.Op) sessiontest.Fate {
			return sessiontest.Fate{Lost: op == session.OpAcquire || op == session.OpDelete}
		})
		a.askFor("u", tokenstore.Mark{Key: "k", Unordered: true}).mustWait()
		time.Sleep(ttl / 2)
		a.port.Fates(nil)
		b.do("equal", 1)
		b.ask("w2", 2).mustBeAdmitted(soon).grant.Release()
	})
}

// Who waits for writes without a token, or for what is only looked on, hurries
// them once; who only looks on hurries nobody.
func TestHurry(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b, c := r.proxy("RA"), r.proxy("RB"), r.proxy("RC")
		u := a.bare("u")
		o := b.look("o1", 1)
		time.Sleep(10 * time.Second)
		if n := a.hurried.Load(); n != 0 {
			t.Error("u is hurried for what is only looked on")
		}
		w1 := c.ask("w1", 1).mustWait()
		if n := a.hurried.Load(); n != 1 {
			t.Errorf("u was told %d times that w1 waits for it, want once", n)
		}
		if n := b.hurried.Load(); n != 0 {
			t.Error("o1 is hurried by an equal one")
		}
		u.mustLand()
		w1.mustBeAdmitted(soon).grant.Release()
		w2 := c.ask("w2", 2).mustWait()
		time.Sleep(10 * time.Second)
		if n := b.hurried.Load(); n != 1 {
			t.Errorf("o1 was told %d times that w2 waits for it, want once", n)
		}
		o.mustLand()
		w2.mustBeAdmitted(soon).grant.Release()
	})
}

// A write that enforces does not hide behind an entry of one that is only looked
// on: nobody would know that it waits.
func TestHurryBehindObserved(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		u := a.bare("u")
		o := b.look("o1", 1)
		w1 := b.ask("w1", 1).mustWait()
		if n := a.hurried.Load(); n != 1 {
			t.Errorf("u was told %d times that w1 waits for it, want once", n)
		}
		u.mustLand()
		w1.mustBeAdmitted(soon).grant.Release()
		o.mustLand()
		acquires := b.port.Calls(session.OpAcquire)
		b.do("w1 again", 1)
		b.look("o1 again", 1).mustLand()
		if b.port.Calls(session.OpAcquire) != acquires {
			t.Error("what is held is acquired again")
		}
	})
}

// A key without a token beside one with: one step, and all or none.
func TestUnorderedBeside(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		b.do("w1", 1)
		both := []tokenstore.Mark{{Key: "l", Unordered: true}, {Key: "k", Token: tok(2)}}
		w := a.askFor("w", both...).mustBeAdmitted(soon)
		if n := a.port.Calls(session.OpAcquire); n != 1 {
			t.Errorf("%d acquires", n)
		}
		w.send()
		l := b.askFor("l", tokenstore.Mark{Key: "l", Token: tok(0)}).mustWait()
		w.mustLand()
		l.mustBeAdmitted(soon).grant.Release()
		b.ask("w3", 3).mustBeAdmitted(soon).grant.Release()
		a.askFor("stale", both...).mustBeStale()
		synctest.Wait()
		if n := len(r.engine.Open("l")); n != 1 {
			t.Errorf("%d entries on l, want that of the write at RB", n)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		g, err := a.store.Acquire(r.t.Context(), both[:1])
		if err != nil || g.Drained(ctx) != nil {
			t.Errorf("it waits: %v", err)
		}
		g.Release()
	})
}

// A store that is moved after an unclean stop tells that writes may be on their
// way to keys of which it has no record.
func TestUnorderedLeft(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.proxy("RA")
		a.do("w1", 1)
		for _, unordered := range []bool{false, true} {
			if unordered {
				a.bare("u")
			}
			h, _, err := session.ReadHeader(r.t.Context(), r.engine.Port())
			if err != nil || h.Clean || h.Unordered != unordered {
				t.Errorf("header %+v, %v; want unordered: %v", h, err, unordered)
			}
		}
	})
}
