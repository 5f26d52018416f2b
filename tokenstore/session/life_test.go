package session_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
)

// R5: a deadline counts from when its keepalive was sent, not from its answer,
// and one that comes after the deadline does not count at all.
func TestDeadlineCountsFromTheSend(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.proxy("RA")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		a.port.Fates(func(op session.Op) (f sessiontest.Fate) {
			if op == session.OpKeepAlive {
				f.Travel = 1200 * time.Millisecond
			}
			return f
		})
		r.at(7 * time.Second) // the second keepalive was sent at 5.33 s, and is still on its way
		a.port.Cut(true)
		every := (ttl - margin) / 3
		r.at(every + ttl - margin - time.Millisecond)
		if w1.wasCut() || !w1.grant.MaySend() {
			t.Error("the session was over before its deadline")
		}
		r.at(every + ttl - margin)
		if !w1.wasCut() || w1.grant.MaySend() {
			t.Error("the session is not over at its deadline")
		}
	})
}

// R10: whoever waits when the session ends is refused, and the next session
// begins without grants.
func TestSessionEndsWhileWaiting(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		w2 := b.ask("w2", 2).mustWait()
		b.port.Cut(true)
		r.at(ttl - margin)
		w2.mustFail(tokenstore.ErrUnavailable)
		b.port.Cut(false)
		r.at(ttl + 10*time.Second)
		w2 = b.ask("w2 again", 2).mustWait()
		w1.mustLand()
		w2.mustBeAdmitted(time.Second)
	})
}

// R10: what was in flight when the session ended keeps its entry under the next
// session too, until it is over or linger is.
func TestNextSessionKeepsEntries(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		a.port.Cut(true)
		r.at(ttl + time.Second)
		if !w1.wasCut() {
			t.Error("w1 was not cut")
		}
		a.port.Cut(false)
		r.at(ttl + 5*time.Second)
		a.askFor("w", tokenstore.Mark{Key: "other", Token: tok(1)}).mustBeAdmitted(0).grant.Release() // in the next session
		w2 := b.ask("w2", 2).mustWait()
		r.at(ttl + 15*time.Second)
		w2.mustWait()
		w1.mustLand()
		w2.mustBeAdmitted(settle)
	})
}

// R9: any number of proxies remove what a dead one has left, whether somebody
// waits for it or not; those that come later wait for nothing.
func TestLinger(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b, c := r.proxy("RA"), r.proxy("RB"), r.proxy("RC")
		for n := range 600 {
			w := a.askFor("w", tokenstore.Mark{Key: tokenstore.Key(fmt.Sprint("k", n)), Token: tok(1)}).mustBeAdmitted(0)
			w.grant.Release()
		}
		a.port.Cut(true)
		r.at(ttl + settle - time.Millisecond)
		if n := len(r.engine.Open("k1")); n != 1 {
			t.Errorf("%d entries on k1 before linger is over", n)
		}
		r.at(ttl + settle + 5*time.Second)
		b.askFor("w2", tokenstore.Mark{Key: "k1", Token: tok(2)}).mustBeAdmitted(0)
		c.askFor("w2", tokenstore.Mark{Key: "k599", Token: tok(2)}).mustBeAdmitted(0)
		for n := range 600 {
			if key := tokenstore.Key(fmt.Sprint("k", n)); n != 1 && n != 599 && len(r.engine.Open(key)) != 0 {
				t.Fatalf("%s has an entry", key)
			}
		}
	})
}

// Idle grants are given back after a time, and beyond a number.
func TestIdle(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.proxy("RA", func(o *session.Options) { o.IdleAfter, o.MaxIdle = time.Minute, 128 })
		for n := range 1000 {
			a.askFor("w", tokenstore.Mark{Key: tokenstore.Key(fmt.Sprint("k", n)), Token: tok(1)}).mustBeAdmitted(0).grant.Release()
		}
		synctest.Wait()
		if n := a.store.Grants(); n > 128 || n < 64 {
			t.Errorf("%d grants are kept, want up to 128", n)
		}
		used := a.ask("used", 1).mustBeAdmitted(0)
		time.Sleep(62 * time.Second)
		synctest.Wait()
		if n := a.store.Grants(); n != 1 {
			t.Errorf("%d grants are left, want the one that is in use", n)
		}
		used.grant.Release()
	})
}

// A grant that is used again and again is given back neither for its age nor for
// the number of those that nobody uses.
func TestIdleKeepsUsed(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.proxy("RA", func(o *session.Options) { o.IdleAfter, o.MaxIdle = time.Minute, 128 })
		often := tokenstore.Mark{Key: "often", Token: tok(1)}
		a.askFor("w", often).mustBeAdmitted(0).grant.Release()
		use := func(when string) {
			g, ok := a.store.Held(often)
			if !ok {
				t.Fatalf("%s: the grant was given back", when)
			}
			g.Release()
		}
		for n := range 1000 {
			a.askFor("w", tokenstore.Mark{Key: tokenstore.Key(fmt.Sprint("k", n)), Token: tok(1)}).mustBeAdmitted(0).grant.Release()
			use(fmt.Sprintf("after %d others", n+1))
		}
		for n := range 6 {
			time.Sleep(30 * time.Second)
			synctest.Wait()
			use(fmt.Sprintf("after %d half minutes", n+1))
		}
		if n := a.store.Grants(); n != 1 {
			t.Errorf("%d grants are left, want the one that was used", n)
		}
	})
}

// A clean stop leaves nothing that others would wait for; an unclean one
// leaves what is not settled, and nothing else.
func TestClose(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprint(clean), func(t *testing.T) {
			inTime(t, func(r *rig) {
				a, b := r.proxy("RA"), r.proxy("RB")
				for n := range 600 {
					a.askFor("w", tokenstore.Mark{Key: tokenstore.Key(fmt.Sprint("k", n)), Token: tok(1)}).mustBeAdmitted(0).grant.Release()
				}
				var w1 *write
				if !clean {
					w1 = a.ask("w1", 1).mustBeAdmitted(0)
					w1.send()
				}
				closeStore(t, a.store, clean)
				b.askFor("w2", tokenstore.Mark{Key: "k1", Token: tok(2)}).mustBeAdmitted(0)
				if all, err := b.port.Sessions(r.t.Context()); err != nil || len(all) == 1 != clean {
					t.Errorf("%d sessions are registered, %v", len(all), err)
				}
				if clean {
					return
				}
				if !w1.wasCut() {
					t.Error("w1 was not cut")
				}
				w2 := b.ask("w2", 2).mustWait()
				r.at(settle - time.Millisecond)
				w2.mustWait()
				w1.mustLand()
				w2.mustBeAdmitted(ttl + 3*time.Second)
			})
		})
	}
}

// The gate is told of raises elsewhere, and what it is told is on record.
func TestRaisedIsTold(t *testing.T) {
	inTime(t, func(r *rig) {
		b := r.proxy("RB")
		quiet, err := session.Open(r.t.Context(), r.engine.Port(), session.Options{Linger: settle, Clock: virtual()})
		if err != nil {
			t.Fatal(err)
		}
		defer closeStore(t, quiet, true)
		g, err := quiet.Acquire(r.t.Context(), []tokenstore.Mark{{Key: "k", Token: tok(1)}})
		if err != nil {
			t.Fatal(err)
		}
		g.Release()
		b.ask("w2", 2)
		b.ask("w3", 3)
		synctest.Wait()
		var last tokenstore.Token
		for last != tok(3) {
			m := <-quiet.Raised()
			if m.Key == "k" && m.Token.Less(last) {
				t.Errorf("told of %v after %v", m.Token, last)
			}
			last = m.Token
		}
	})
}

// The figures: what is observed, and how long a session still lasts.
func TestFigures(t *testing.T) {
	inTime(t, func(r *rig) {
		var ops, waited atomic.Int64
		a := r.proxy("RA")
		b := r.proxy("RB", func(o *session.Options) {
			o.Observe = session.Observer{
				Op:         func(op session.Op, _ time.Duration, err error) { ops.Add(1) },
				RemoteWait: func(took time.Duration) { waited.Add(int64(took)) },
			}
		})
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		w2 := b.ask("w2", 2).mustWait()
		if b.store.Waiting() != 1 || b.store.Grants() != 1 {
			t.Errorf("%d wait of %d grants", b.store.Waiting(), b.store.Grants())
		}
		r.at(2 * time.Second)
		w1.mustLand()
		w2.mustBeAdmitted(0)
		if got := time.Duration(waited.Load()); got < 2*time.Second || got > 3*time.Second {
			t.Errorf("waited for %v, want 2 s", got)
		}
		if ops.Load() == 0 {
			t.Error("no call was observed")
		}
		if left := b.store.Remaining(); left != ttl-margin-2*time.Second {
			t.Errorf("%v remain of the session", left)
		}
		b.port.Cut(true)
		r.at(time.Minute)
		if left := b.store.Remaining(); left != 0 {
			t.Errorf("%v remain of a session that is over", left)
		}
	})
}

// A new holder does not wait until all that an old session has left is
// removed.
func TestUrgentRemovalsComeFirst(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		const keys = 3000
		for n := range keys {
			a.askFor("w", tokenstore.Mark{Key: tokenstore.Key(fmt.Sprint("k", n)), Token: tok(1)}).mustBeAdmitted(0).grant.Release()
		}
		a.port.Fates(func(op session.Op) (f sessiontest.Fate) {
			if op == session.OpDelete {
				f.Travel = time.Second
			}
			return f
		})
		a.port.Cut(true)
		r.at(ttl - margin)
		a.port.Cut(false)
		r.at(ttl + time.Second)
		// RA removes its old entries, 256 in two seconds, in no order: some of these
		// twenty are gone already, and all of them would not be so soon by chance.
		var asked []*write
		for n := range 20 {
			asked = append(asked, b.askFor("w2", tokenstore.Mark{Key: tokenstore.Key(fmt.Sprint("k", 7+100*n)), Token: tok(2)}))
		}
		end := time.Now().Add(7 * time.Second)
		for _, w := range asked {
			w.mustBeAdmitted(time.Until(end))
		}
	})
}
