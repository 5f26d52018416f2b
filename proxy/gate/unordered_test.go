package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// inUnorderedTime is inTime for a gate that lets unordered writes pass.
func inUnorderedTime(t *testing.T, f func(r *rig)) {
	t.Helper()
	inTime(t, func(r *rig) {
		r.opts.Unordered = true
		r.gate.Stop()
		r.boot()
		f(r)
	})
}

// bare lets a write without a token arrive on key "k".
func (r *rig) bare(name string) *write {
	r.Helper()
	w := r.startOn(name, time.Hour, Claim{Key: "k", Unordered: true})
	w.claims = nil // the judge has no order for it
	return w
}

func (w *write) overtaken() bool {
	select {
	case <-w.ticket.Overtaken():
		return true
	default:
		return false
	}
}

// A write without a token is never refused, and a fenced one waits for it,
// equal tokens too, however it ends.
func TestUnordered(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		u1 := r.bare("u1").mustBeSent()
		w1 := r.start("w1", 1).mustWait()
		w1b := r.start("w1b", 1).mustWait()
		if !u1.overtaken() {
			t.Error("u1's client may hold w1 up: nobody told it (L1, L2)")
		}
		u1.lose()
		w1.mustWait()
		after(settle)
		w1.mustBeSent()
		w1b.mustBeSent()
		r.bare("u2").mustBeSent().answer() // beside a fenced one that runs
		w1.answer()
		w1b.answer()
		r.start("w2", 2).mustBeSent().answer()
		r.bare("u3").mustBeSent().answer() // below the highest
	})
}

// A stream of writes without a token does not keep a fenced one out: it waits
// for those that were there when it came.
func TestUnorderedStream(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		u1, u2 := r.bare("u1"), r.bare("u2")
		release := r.disk.hold(&r.disk.holdSync)
		w1 := r.start("w1", 1).mustWait()
		u3 := r.bare("u3").mustBeSent() // while w1 is on its way to the disk
		release()
		synctest.Wait()
		u4 := r.bare("u4").mustBeSent()
		u2.answer()
		w1.mustWait()
		u1.answer()
		w1.mustBeSent()
		if u3.overtaken() || u4.overtaken() {
			t.Error("one that nobody waits for is cut")
		}
		w2 := r.start("w2", 2).mustWait()
		if !u3.overtaken() || !u4.overtaken() || !w1.overtaken() {
			t.Error("one that w2 waits for is not cut")
		}
		for _, w := range []*write{u3, w1, u4} {
			w2.mustWait()
			w.answer()
		}
		w2.mustBeSent().answer()
	})
}

// A drain that runs out says when the unordered writes that it waited for are
// settled, and nothing of later ones.
func TestUnorderedRetryAfter(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		u1 := r.bare("u1").mustBeSent()
		w1 := r.startOn("w1", 20*time.Second, on("k", 1)).mustWait()
		u2 := r.bare("u2").mustBeSent()
		after(10 * time.Second)
		u1.lose()
		after(10 * time.Second)
		var drain *DrainTimeoutError
		if w1.look(); !errors.As(w1.err, &drain) || drain.RetryAfter != settle-10*time.Second {
			t.Errorf("%v %+v", w1.err, drain)
		}
		u2.answer()
	})
}

// One request may have a token for one of its keys and none for another.
func TestUnorderedAndFenced(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		w1 := r.startOn("w1", time.Hour, on("a", 1)).mustBeSent()
		both := r.startOn("both", time.Hour, on("a", 2), Claim{Key: "b", Unordered: true}).mustWait()
		r.startOn("free", time.Hour, on("b", 9)).mustBeSent().answer() // a waiter holds nothing
		w1.answer()
		both.mustBeSent()
		b := r.startOn("b", time.Hour, on("b", 9)).mustWait()
		a := r.startOn("a", time.Hour, on("a", 3)).mustWait()
		both.claims = both.claims[:1]
		both.answer()
		a.mustBeSent().answer()
		b.mustBeSent().answer()
	})
}

// No record tells of an unordered write: after a crash every fenced one
// waits, whatever the record says and where there is none, and no record says
// clear, or a second crash would be believed (Q).
func TestUnorderedCrash(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		r.start("w1", 1).mustBeSent().answer()
		if r.disk.record("k").Clear {
			t.Error("the record says clear of a key with unordered writes")
		}
		r.disk.Clear("k", tok(1)) // as an earlier life would have it
		r.bare("u").mustBeSent()
		r.startOn("other", time.Hour, Claim{Key: "other", Unordered: true}).mustBeSent()
		r.crash()
		same := r.start("the same token", 1).mustWait()
		none := r.startOn("on a key without a record", time.Hour, on("other", 1)).mustWait()
		if st := r.gate.Status("other", false); st.QuarantinedUntil.IsZero() {
			t.Error("Status says nothing of the quarantine")
		}
		r.bare("never refused").mustBeSent().answer()
		after(settle)
		same.mustBeSent().answer()
		none.mustBeSent().answer()
	})
}

// A stop waits for a write whose keys nobody knows.
func TestUnorderedStop(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		w := r.startOn("no key", time.Hour, Claim{Unordered: true}).mustBeSent()
		r.start("any key", 1).mustBeSent().answer()
		r.gate.Stop()
		r.bare("too late").mustFail(ErrStopping)
		var seen Seen
		r.observe("too late", &seen, on("k", 9)).mustFail(ErrStopping)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.gate.Idle(ctx); err == nil {
			t.Error("a stop is clean while a write is in flight")
		}
		w.claims = nil
		w.answer()
		if err := r.gate.Idle(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Whatever comes in whatever order: a fenced write is sent only when all that
// was there when it came, and is older, is over; no unordered one and none that
// is looked on is kept waiting; and nothing is left behind.
func TestUnorderedAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		inUnorderedTime(t, func(r *rig) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			type fenced struct {
				*write
				token  uint64
				before []*write // there when it came
			}
			var open []*write // unordered or looked on, in flight
			var waiting []fenced
			over := map[*write]bool{}
			end := func(w *write) {
				over[w] = true
				if rnd.IntN(4) == 0 {
					w.lose()
					after(settle)
					return
				}
				w.answer()
			}
			sent := 0
			for range 60 {
				switch n := 1 + rnd.Uint64N(4); rnd.IntN(5) {
				case 0:
					open = append(open, r.bare("u").mustBeSent())
				case 1:
					var seen Seen
					o := r.observe("o", &seen, on("k", n)).mustBeSent()
					if seen.Refusal != nil { // as a token it would raise the judge's bar
						open = append(open, o)
					} else {
						end(o)
					}
				case 2:
					before := append([]*write(nil), open...)
					waiting = append(waiting, fenced{r.start("w", n), n, before})
				default:
					if len(open) > 0 {
						i := rnd.IntN(len(open))
						end(open[i])
						open = append(open[:i], open[i+1:]...)
					}
				}
				for i := 0; i < len(waiting); i++ {
					f := waiting[i]
					if f.look(); !f.done {
						continue
					}
					waiting = append(waiting[:i], waiting[i+1:]...)
					i--
					if !f.sent {
						continue
					}
					sent++
					for _, u := range f.before {
						if !over[u] {
							t.Fatalf("seed %d: a fenced write was sent while %s ran, which was there when it came", seed, u.name)
						}
					}
					f.answer()
				}
			}
			if sent == 0 {
				t.Logf("seed %d: no fenced write was sent", seed)
			}
			for _, u := range open {
				end(u)
			}
			for _, f := range waiting {
				if f.look(); !f.done {
					t.Fatalf("seed %d: a fenced write with token %d still waits, and nothing is open", seed, f.token)
				}
				if f.sent {
					f.answer()
				}
			}
		})
	}
}

// A holder that repeats its write after each drain-timeout gets through,
// however many writes without a token come meanwhile: its place is kept.
func TestUnorderedRetry(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		u := r.bare("u1").mustBeSent()
		w := r.startOn("w", settle, on("k", 1)).mustWait() // drain_timeout and settle: the defaults
		after(time.Second)
		u.lose() // its upload is cut
		later := r.bare("u2").mustBeSent()
		after(settle - time.Second)
		var drain *DrainTimeoutError
		if w.look(); !errors.As(w.err, &drain) {
			t.Fatalf("%v", w.err)
		}
		after(drain.RetryAfter)
		w = r.startOn("w again", settle, on("k", 1)).mustBeSent()
		next := r.startOn("the next one", settle, on("k", 1)).mustWait() // has a place of its own
		later.answer()
		next.mustBeSent().answer()
		w.answer()

		// A place is its token's alone.
		u = r.bare("u3").mustBeSent()
		r.startOn("w", time.Second, on("k", 1)).mustWait()
		after(time.Second)
		u4 := r.bare("u4").mustBeSent()
		w2 := r.startOn("w2", time.Hour, on("k", 2)).mustWait()
		u.answer()
		w2.mustWait()
		u4.answer()
		w2.mustBeSent().answer()
	})
}

// A holder that has been there lets what comes without a token go on for half
// of its patience; a new one does not.
func TestUnorderedGrace(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		r.start("w1", 1).mustBeSent().answer()
		u := r.bare("u1").mustBeSent()
		w := r.startOn("w1", 10*time.Second, on("k", 1)).mustWait()
		after(5*time.Second - 1)
		if u.overtaken() {
			t.Error("cut at once")
		}
		after(1)
		if !u.overtaken() {
			t.Error("a stalled client holds the key for the whole drain_timeout")
		}
		u.answer()
		w.mustBeSent().answer()
		u = r.bare("u2").mustBeSent()
		w = r.start("w2", 2).mustWait()
		if !u.overtaken() {
			t.Error("a new holder waits for a client")
		}
		u.answer()
		w.mustBeSent().answer()
	})
}
