package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
)

// keysOnly is a backend whose notifications say nothing but a key.
type keysOnly struct{ *sessiontest.Port }

func (k keysOnly) Watch(ctx context.Context, sink session.Sink) error {
	return k.Port.Watch(ctx, onlyKeys{sink})
}

type onlyKeys struct{ session.Sink }

func (k onlyKeys) Raised(m tokenstore.Mark) { k.Changed(m.Key) }
func (k onlyKeys) Gone(e session.Entry)     { k.Changed(e.Key) }

// A key alone is enough to be quick.
func TestNotifiedOfKeysAlone(t *testing.T) {
	inTime(t, func(r *rig) {
		slow := func(o *session.Options) { o.PollEvery = time.Hour }
		a, b := r.proxyOver("RA", func(p *sessiontest.Port) session.Backend { return keysOnly{p} }, slow), r.proxyOver("RB", func(p *sessiontest.Port) session.Backend { return keysOnly{p} }, slow)
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		w2 := b.ask("w2", 2).mustWait()
		a.ask("w1b", 1).mustBeStale()
		w1.mustLand()
		w2.mustBeAdmitted(0)
	})
}

// late is a backend whose Watch begins late.
type late struct {
	*sessiontest.Port
	begin <-chan struct{}
}

func (l late) Watch(ctx context.Context, sink session.Sink) error {
	select {
	case <-l.begin:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	session.TellListening(sink)
	return l.Port.Watch(ctx, sink)
}

// What happened before anything was heard is looked for, without a poll.
func TestNothingHeardBefore(t *testing.T) {
	inTime(t, func(r *rig) {
		begin := make(chan struct{})
		slow := func(o *session.Options) { o.PollEvery = time.Hour }
		a := r.proxy("RA")
		b := r.proxyOver("RB", func(p *sessiontest.Port) session.Backend { return late{p, begin} }, slow)
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		w2 := b.ask("w2", 2).mustWait()
		w1.mustLand()
		w2.mustWait()
		close(begin)
		w2.mustBeAdmitted(0)
		select {
		case key := <-b.store.LeaseChanges():
			if key != "" {
				t.Errorf("the lease of %q has changed, want any", key)
			}
		default:
			t.Error("who waits for a lease is not told")
		}
	})
}

// That an older entry is gone can be told before the answer that names it is
// here. Nobody tells it again, and no poll is waited for.
func TestGoneBeforeTheAnswer(t *testing.T) {
	for name, over := range map[string]func(p *sessiontest.Port) session.Backend{
		"told of the entry": func(p *sessiontest.Port) session.Backend { return p },
		"told of the key":   func(p *sessiontest.Port) session.Backend { return keysOnly{p} },
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(r *rig) {
				slow := func(o *session.Options) { o.PollEvery = time.Hour }
				a, b := r.proxyOver("RA", over, slow), r.proxyOver("RB", over, slow)
				a.do("w1", 1) // its entry stays, and nothing uses it
				const travel = 100 * time.Millisecond
				b.port.Fates(func(op session.Op) (f sessiontest.Fate) {
					if op == session.OpAcquire {
						f.Travel = travel
					}
					return f
				})
				w2 := b.ask("w2", 2)
				r.at(travel + travel/2)
				if n := len(r.engine.Open("k")); n != 1 {
					t.Fatalf("%d entries are open before the answer, want the new one alone", n)
				}
				r.at(2 * travel)
				w2.mustBeAdmitted(0).grant.Release()
			})
		})
	}
}

// R2, R3: a raise waits for older writes everywhere, those of its own proxy
// too, and a new holder for nothing else.
func TestWaitsForOlder(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		w1b := b.ask("w1b", 1).mustBeAdmitted(0) // equal tokens run side by side
		w1b.send()
		w2 := a.ask("w2", 2).mustWait()
		other := b.askFor("other", tokenstore.Mark{Key: "other", Token: tok(1)})
		other.mustBeAdmitted(0).grant.Release()
		w1.mustLand()
		w2.mustWait()
		w1b.mustLand()
		w2.mustBeAdmitted(0).send() // told of the delete, without a poll
		w3 := a.ask("w3", 3).mustWait()
		w2.mustLand()
		w3.mustBeAdmitted(0).grant.Release()
		if n := a.port.Calls(session.OpLook); n != 0 {
			t.Errorf("it was polled %d times", n)
		}
	})
}

// A raise where this proxy alone holds the key costs one transaction, and
// waits for none.
func TestRaiseCostsOneRoundTrip(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.proxy("RA")
		a.do("w1", 1)
		release := a.port.Hold(session.OpDelete)
		defer release()
		for n := range uint64(10) {
			a.do("w", n+2)
		}
		if n := a.port.Calls(session.OpAcquire); n != 11 {
			t.Errorf("%d transactions for 11 raises", n)
		}
	})
}

// R4: a live grant needs no I/O, also while the store is away, up to the
// deadline (R5).
func TestStickyGrant(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.proxy("RA")
		a.do("w1", 1)
		a.port.Cut(true)
		for range 7 {
			a.do("w1", 1)
			time.Sleep(time.Second)
		}
		if n := a.port.Calls(session.OpAcquire); n != 1 {
			t.Errorf("%d transactions for one token", n)
		}
		r.at(ttl - margin)
		a.ask("w1", 1).mustFail(tokenstore.ErrUnavailable)
		a.port.Cut(false)
		r.at(30 * time.Second)
		a.do("w1", 1) // service resumes by itself
	})
}

// R3: what was read before a write began to wait says nothing of what it waits
// for.
func TestLookBeforeTheWait(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b, c := r.proxy("RA"), r.proxy("RB"), r.proxy("RC")
		b.port.Deafen(true)
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		b.ask("w2", 2).mustWait()
		slow := true
		b.port.Fates(func(op session.Op) (f sessiontest.Fate) {
			if op == session.OpLook && slow {
				slow, f.Travel = false, 400*time.Millisecond
			}
			return f
		})
		r.at(680 * time.Millisecond) // the store was read at 650 ms
		w1.mustLand()
		w2c := c.ask("w2c", 2).mustBeAdmitted(0)
		w2c.send()
		w3 := b.ask("w3", 3).mustWait()
		r.at(1200 * time.Millisecond) // the answer came at 1050 ms
		w3.mustWait()
		w2c.mustLand()
		w3.mustBeAdmitted(time.Second)
	})
}

// R4: once a raise was seen, a grant admits nothing, and its refusal costs no
// I/O while something is in flight under it.
func TestOvertakenGrant(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		w2 := b.ask("w2", 2).mustWait()
		before := a.port.Calls(session.OpAcquire)
		a.ask("w1b", 1).mustBeStale()
		if n := a.port.Calls(session.OpAcquire) - before; n != 0 {
			t.Errorf("%d transactions for a refusal that was known", n)
		}
		w1.mustLand()
		a.ask("w1c", 1).mustBeStale()
		w2.mustBeAdmitted(0)
	})
}

// A write that waits and is overtaken is told so, and lets go (R3).
func TestOvertakenWhileItWaits(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b, c := r.proxy("RA"), r.proxy("RB"), r.proxy("RC")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		w2 := b.ask("w2", 2).mustWait()
		w3 := c.ask("w3", 3)
		synctest.Wait()
		w2.mustBeStale()
		w1.mustLand()
		w3.mustBeAdmitted(0)
	})
}

// R6: an entry stays while anything of it is in flight, whatever is seen.
func TestReleaseWaitsForWrites(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		w1, w1b := a.ask("w1", 1).mustBeAdmitted(0), a.ask("w1b", 1).mustBeAdmitted(0)
		w1.send()
		w1b.send()
		w2 := b.ask("w2", 2).mustWait()
		w1.mustLand()
		r.at(5 * time.Minute) // the session lives: no linger runs
		w2.mustWait()
		w1b.lose() // unsettled for settle
		r.at(5*time.Minute + settle - time.Millisecond)
		w2.mustWait()
		w1b.mustLand()
		w2.mustBeAdmitted(time.Second)
	})
}

// Several keys are admitted on all or on none, and who is overtaken on one
// holds up nobody on the other.
func TestSeveralKeys(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		on := func(p *proxy, name string, x, y uint64) *write {
			return p.askFor(name, tokenstore.Mark{Key: "x", Token: tok(x)}, tokenstore.Mark{Key: "y", Token: tok(y)})
		}
		w := on(a, "w", 1, 1).mustBeAdmitted(0)
		w.send()
		wa := on(a, "wa", 3, 2).mustWait()
		wb := on(b, "wb", 2, 3)
		wb.mustBeStale() // on x; and nothing was recorded on y
		if rec, _ := r.engine.Record("y"); rec.Highest != tok(2) {
			t.Errorf("y was raised to %v by a write that was refused", rec.Highest)
		}
		wc := on(b, "wc", 4, 2).mustWait()
		wa.mustBeStale()
		w.mustLand()
		wc.mustBeAdmitted(0).send()
		wd := on(b, "wd", 4, 2).mustBeAdmitted(0) // sticky
		wd.grant.Release()
		wc.mustLand()
		we := on(b, "we", 4, 3).mustBeAdmitted(0) // one of the two is live
		if rec, _ := r.engine.Record("y"); rec.Highest != tok(3) {
			t.Errorf("y is at %v", rec.Highest)
		}
		we.grant.Release()
	})
}

// Equal tokens that come together make one transaction, and share what becomes
// of it.
func TestOneTransactionForAll(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.proxy("RA")
		release := a.port.Hold(session.OpAcquire)
		var together []*write
		for range 20 {
			together = append(together, a.ask("w", 1))
		}
		together[0].leave() // the first one's leaving does not end it
		synctest.Wait()
		together[0].mustFail(tokenstore.ErrUnavailable)
		release()
		for _, w := range together[1:] {
			w.mustBeAdmitted(0).grant.Release()
		}
		a.port.Fates(func(op session.Op) (f sessiontest.Fate) {
			f.Lost = op == session.OpAcquire
			return f
		})
		together = nil
		for range 20 {
			together = append(together, a.ask("w", 2))
		}
		time.Sleep(ttl / 2)
		for _, w := range together {
			w.mustFail(tokenstore.ErrUnavailable)
		}
		if n := a.port.Calls(session.OpAcquire); n != 2 {
			t.Errorf("%d transactions, want 2", n)
		}
		r.at(time.Minute)
		if n := len(r.engine.Open("k")); n != 0 {
			t.Errorf("%d entries are left that nobody owns", n)
		}
	})
}

// Another holder's equal token is refused, here and at another proxy.
func TestHolders(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		held := func(p *proxy, holder string) *write {
			return p.askFor(holder, tokenstore.Mark{Key: "k", Token: tok(1), Holder: holder})
		}
		held(a, "").mustBeAdmitted(0).grant.Release()
		held(a, "x").mustBeAdmitted(0).grant.Release() // is put on record
		held(a, "x").mustBeAdmitted(0).grant.Release()
		if n := a.port.Calls(session.OpAcquire); n != 2 {
			t.Errorf("%d transactions, want 2", n)
		}
		for _, p := range []*proxy{a, b} {
			var collision *tokenstore.CollisionError
			if err := held(p, "y").err; !errors.As(err, &collision) || collision.Current != "x" {
				t.Errorf("error = %v, want a collision with x", err)
			}
		}
		b.ask("w2", 2).mustBeAdmitted(time.Second) // and nothing of all that is left
	})
}

// What is held is given at once, and only while Acquire would give it: not
// before older writes are gone, not once a higher token is known, not to another
// holder, and not under a session that is over (R3, R4, R10). While it is used
// its entry stays (R6).
func TestHeld(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		held := func(p *proxy, n uint64, holder string) tokenstore.Grant {
			t.Helper()
			calls := p.port.Calls(session.OpAcquire)
			g, ok := p.store.Held(tokenstore.Mark{Key: "k", Token: tok(n), Holder: holder})
			synctest.Wait()
			if ok != (g != nil) || p.port.Calls(session.OpAcquire) != calls {
				t.Errorf("%v, %v, %d calls", g, ok, p.port.Calls(session.OpAcquire)-calls)
			}
			return g
		}
		if held(a, 1, "") != nil {
			t.Error("a grant of a key that nobody asked for")
		}
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		w2 := b.ask("w2", 2).mustWait()
		if held(b, 2, "") != nil {
			t.Error("a grant while an older write is open")
		}
		if held(a, 1, "") != nil {
			t.Error("a grant though a higher token is on record")
		}
		w1.mustLand()
		w2.mustBeAdmitted(0).grant.Release()
		if held(b, 2, "somebody") != nil {
			t.Error("a grant to a holder who is not on record")
		}
		g := held(b, 2, "")
		if g == nil || !g.MaySend() || g.Drained(t.Context()) != nil {
			t.Fatalf("no grant of what is held: %v", g)
		}
		w3 := a.ask("w3", 3).mustWait() // its entry stays
		if held(b, 2, "") != nil {
			t.Error("a grant of what is closing")
		}
		g.Release()
		w3.mustBeAdmitted(0).grant.Release()
		a.port.Cut(true)
		time.Sleep(ttl)
		if held(a, 3, "") != nil {
			t.Error("a grant under a session that is over")
		}
	})
}

// A raise whose caller has left is recorded all the same, and the gate is told:
// to an equal one of another proxy it has nothing to add, and writes with a lower
// token would not be told that they are overtaken.
func TestRaiseOfWhoHasLeft(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		a.port.Deafen(true) // of its own raise it does not hear either
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		release := a.port.Hold(session.OpAcquire)
		w2 := a.askFor("w2", tokenstore.Mark{Key: "k", Token: tok(2), Holder: "h"}, tokenstore.Mark{Key: "l", Unordered: true}).mustWait()
		w2.leave()
		w2.mustFail(tokenstore.ErrUnavailable)
		if m, told := a.raised.Load(tokenstore.Key("k")); told {
			t.Errorf("the gate is told of %+v before it is recorded", m)
		}
		release()
		synctest.Wait()
		want := tokenstore.Mark{Key: "k", Token: tok(2), Holder: "h"}
		if m, _ := a.raised.Load(want.Key); m != want {
			t.Errorf("the gate is told of %+v, want %+v", m, want)
		}
		if _, told := a.raised.Load(tokenstore.Key("l")); told {
			t.Error("it is told of a raise where none was")
		}
		equal := b.ask("w2 at RB", 2).mustWait()
		w1.mustLand()
		equal.mustBeAdmitted(soon).grant.Release()
	})
}

// The same where the raise is recorded before it is seen that its caller has left:
// then he is the later one, and tells. Of the two, which have both happened by then,
// the runtime picks one: 64 times the wrong one is not to be feared.
func TestRaiseOfWhoLeavesLate(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.proxy("RA")
		a.port.Deafen(true)
		for n := range uint64(64) {
			want := tokenstore.Mark{Key: "k", Token: tok(n + 1)}
			ctx, leave := context.WithCancel(context.Background())
			g, err := a.store.Acquire(leavesLate{ctx, leave}, []tokenstore.Mark{want})
			if err == nil {
				g.Release()
				continue
			}
			synctest.Wait()
			if m, _ := a.raised.Load(want.Key); m != want {
				t.Errorf("the gate is told of %+v, want %+v", m, want)
			}
			return
		}
		t.Error("nobody has left")
	})
}

// leavesLate ends when it is waited for, and what is waited for beside it has come.
type leavesLate struct {
	context.Context
	leave context.CancelFunc
}

func (c leavesLate) Done() <-chan struct{} {
	time.Sleep(time.Second)
	c.leave()
	return c.Context.Done()
}

// Who waits for the answer tells the gate himself.
func TestRaiseOfWhoWaits(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.proxy("RA")
		a.port.Deafen(true)
		a.do("w1", 1)
		if m, told := a.raised.Load(tokenstore.Key("k")); told {
			t.Errorf("the gate is told of %+v, which it knows", m)
		}
		release := a.port.Hold(session.OpAcquire)
		a.port.Fates(func(session.Op) sessiontest.Fate { return sessiontest.Fate{Fail: errors.New("refused")} })
		w2 := a.ask("w2", 2).mustWait()
		w2.leave()
		release()
		synctest.Wait()
		if m, told := a.raised.Load(tokenstore.Key("k")); told {
			t.Errorf("the gate is told of %+v, which is not recorded", m)
		}
	})
}
