package gate

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var errDisk = fmt.Errorf("%w: broken by the test", tokenstore.ErrUnavailable)

func on(key string, n uint64) Claim { return Claim{Key: tokenstore.Key(key), Token: tok(n)} }

func TestStaleIsRefusedForEver(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w2", 2).mustBeSent().answer()
		r.start("w1", 1).mustBeStale(false)
		if err := r.gate.Check(r.Context(), []Claim{on("k", 1)}, time.Minute, new(Ticket)); err == nil {
			t.Error("Check lets a stale token pass")
		}
		if err := r.gate.Check(r.Context(), []Claim{on("k", 2)}, time.Minute, new(Ticket)); err != nil {
			t.Errorf("Check refuses the highest token: %v", err)
		}
		r.crash()
		r.start("w1", 1).mustBeStale(false)
		after(settle)
		r.start("w1", 1).mustBeStale(false)
	})
}

func TestEqualTokensRunTogetherAndKeysApart(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.start("a", 7).mustBeSent(), r.start("b", 7).mustBeSent()
		c := r.start("c", 8).mustWait()
		r.startOn("other", time.Hour, on("other", 1)).mustBeSent().answer()
		a.answer()
		c.mustWait()
		b.answer()
		c.mustBeSent().answer()
	})
}

func TestOvertakenWhileItWaits(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		w2 := r.start("w2", 2).mustWait()
		release := r.disk.hold(&r.disk.holdSync)
		w3 := r.start("w3", 3).mustWait()
		w2.mustWait() // 3 is not on disk: nobody is told "stale" yet
		release()
		synctest.Wait()
		w2.mustBeStale(true)
		w3.mustWait()
		w1.answer()
		w3.mustBeSent().answer()
	})
}

func TestPendingRaise(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w1", 1).mustBeSent().answer()
		release := r.disk.hold(&r.disk.holdSync)
		r.start("w3", 3).mustWait()
		w2 := r.start("w2", 2).mustWait() // between the disk and memory (rule 4)
		release()
		synctest.Wait()
		w2.mustBeStale(true)
	})
}

func TestFailedRaise(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		release := r.disk.hold(&r.disk.holdSync)
		w3 := r.start("w3", 3).mustWait()
		same, lower := r.start("w3 too", 3).mustWait(), r.start("w2", 2).mustWait()
		r.disk.break_(errDisk)
		release()
		synctest.Wait()
		for _, w := range []*write{w3, same, lower} {
			w.mustFail(tokenstore.ErrUnavailable)
		}
		if closed(w1.ticket.Overtaken()) {
			t.Error("a raise that failed cuts the older write")
		}
		r.start("w4", 4).mustFail(tokenstore.ErrUnavailable)
		r.start("w1 again", 1).mustFail(tokenstore.ErrUnavailable) // never "stale"
		r.disk.break_(nil)
		// The tokens that were presented count (high stays), for as long as
		// anything of the key is in memory.
		r.start("w1 again", 1).mustBeStale(true)
		if got := r.disk.record("k").Highest; got != tok(4) {
			t.Errorf("on disk is %v, want 4", got)
		}
		w1.answer()
		r.start("w3 again", 3).mustBeStale(false)
		r.start("w4 again", 4).mustBeSent().answer()
	})
}

func TestStoreThatHangs(t *testing.T) {
	inTime(t, func(r *rig) {
		release := r.disk.hold(&r.disk.holdSync)
		w1 := r.startOn("w1", time.Minute, on("k", 1)).mustWait()
		w1b := r.startOn("w1 too", 2*time.Minute, on("k", 1)).mustWait()
		after(time.Minute)
		w1.mustFail(tokenstore.ErrUnavailable)
		w1b.mustFail(tokenstore.ErrUnavailable)
		release()
		r.start("again", 1).mustBeSent().answer()
	})
}

func TestLoadFails(t *testing.T) {
	inTime(t, func(r *rig) {
		r.disk.break_(errDisk)
		r.start("w1", 1).mustFail(tokenstore.ErrUnavailable)
		if err := r.gate.Check(r.Context(), []Claim{on("k", 1)}, time.Minute, new(Ticket)); !errors.Is(err, tokenstore.ErrUnavailable) {
			t.Errorf("Check: %v", err)
		}
		r.disk.break_(nil)
		r.start("w1", 1).mustBeSent().answer()
	})
}

func TestDrainTimeout(t *testing.T) {
	tests := []struct {
		name   string
		before func(r *rig)
		retry  time.Duration
	}{
		{"in flight", func(r *rig) { r.start("w1", 1).mustBeSent() }, 0},
		{"unsettled", func(r *rig) { r.start("w1", 1).mustBeSent().lose() }, settle - 10*time.Second},
		{"both", func(r *rig) {
			r.start("w1", 1).mustBeSent()
			r.start("w1 too", 1).mustBeSent().lose()
		}, 0},
		{"quarantine", func(r *rig) { r.start("w1", 1).mustBeSent(); r.crash() }, settle - 10*time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inTime(t, func(r *rig) {
				tt.before(r)
				w2 := r.startOn("w2", 10*time.Second, on("k", 2)).mustWait()
				after(10 * time.Second)
				var timeout *DrainTimeoutError
				if w2.look(); !errors.As(w2.err, &timeout) || timeout.RetryAfter != tt.retry || timeout.Key != "k" {
					t.Errorf("got %#v, want a drain timeout with %v", w2.err, tt.retry)
				}
				r.start("w1 again", 1).mustBeStale(false) // the token counts already
			})
		})
	}
}

func TestClientLeavesWhileItWaits(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		w2 := r.start("w2", 2).mustWait()
		w2.leave()
		synctest.Wait()
		w2.mustFail(ErrLeft)
		w1.answer()
		if w2.sent {
			t.Error("w2 was sent though its client had left")
		}
		// A raise that has begun goes on without its client.
		release := r.disk.hold(&r.disk.holdSync)
		w3 := r.start("w3", 3).mustWait()
		w3b := r.start("w3 too", 3).mustWait()
		w3.leave()
		synctest.Wait()
		release()
		synctest.Wait()
		w3.mustFail(ErrLeft)
		w3b.mustBeSent().answer()
	})
}

func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.opts.MaxWaiting, r.opts.MaxWaitingPerKey = 3, 2
		r.boot()
		w1 := r.start("w1", 1).mustBeSent()
		a := r.start("a", 2).mustWait()
		b := r.start("b", 2).mustWait()
		r.start("too many on the key", 2).mustFail(ErrOverloaded)
		r.startOn("o", time.Hour, on("o", 1)).mustBeSent().lose()
		r.startOn("o2", time.Hour, on("o", 2)).mustWait()
		r.startOn("too many in all", time.Hour, on("p", 1)).mustFail(ErrOverloaded)
		r.start("stale comes first", 1).mustBeStale(false)
		w1.answer()
		a.mustBeSent().answer()
		b.mustBeSent().answer()
		after(time.Hour)
	})
}

// The waiting writes of an old holder do not keep the new one out.
func TestOverloadLetsRaisesIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.opts.MaxWaitingPerKey = 2
		r.boot()
		w1 := r.start("w1", 1).mustBeSent()
		a, b := r.start("a", 2).mustWait(), r.start("b", 2).mustWait()
		r.start("c", 2).mustFail(ErrOverloaded)
		w3 := r.start("w3", 3).mustWait()
		a.mustBeStale(true)
		b.mustBeStale(true)
		w1.answer()
		w3.mustBeSent().answer()
	})
}

// A raise that was given up may reach the disk late, and say clear. Until its
// fate is known the key is not forgotten, however many others come by: a lower
// write that was admitted meanwhile would be missed after a crash (Q).
func TestLateClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start("w5", 5).mustBeSent().answer()
		release := r.disk.hold(&r.disk.holdSync)
		w7 := r.startOn("w7", time.Second, on("k", 7)).mustWait()
		r.disk.late = true // from here on a raise is recorded though nobody waits for it
		after(time.Second)
		w7.mustFail(tokenstore.ErrUnavailable)
		for i := range 3 * shards * restingKeys {
			_ = r.gate.Check(r.Context(), []Claim{on(fmt.Sprint(i), 1)}, time.Minute, new(Ticket))
		}
		w5 := r.startOn("w5 again", time.Second, on("k", 5))
		release()
		synctest.Wait()
		after(time.Second)
		r.crash()
		r.start("w7 again", 7).land()
		w5.land()
	})
}

func TestStop(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		w2 := r.start("w2", 2).mustWait()
		r.startOn("known", time.Hour, on("known", 1)).mustBeSent().answer()
		clean := r.stop()
		r.startOn("known", time.Hour, on("known", 1)).mustFail(ErrStopping)
		w2.mustFail(ErrStopping)
		r.start("w2", 2).mustFail(ErrStopping)
		r.startOn("o", time.Hour, on("o", 1)).mustFail(ErrStopping)
		if clean.Load() {
			t.Error("idle with w1 in flight")
		}
		w1.answer()
		if !clean.Load() {
			t.Error("not idle though everything is over")
		}
	})
}

// With room for one mark a shard, memory forgets nearly everything, and
// nothing depends on it.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.opts.CachedMarks = 1
		r.boot()
		const keys = 3 * shards * restingKeys
		r.start("first", 1).mustBeSent().answer() // its entry rests
		held := r.start("held", 1).mustBeSent()   // and is in use again
		for i := range keys {
			r.startOn("w", time.Hour, on(fmt.Sprint(i), 5)).mustBeSent().answer()
		}
		for i := range keys {
			r.startOn("old", time.Hour, on(fmt.Sprint(i), 4)).mustBeStale(false)
		}
		if n := r.gate.Counts().Cached; n > shards*(1+restingKeys)+1 {
			t.Errorf("%d marks are cached", n)
		}
		w2 := r.start("w2", 2).mustWait() // what is in flight is never evicted
		held.answer()
		w2.mustBeSent().answer()
	})
}

func TestStatus(t *testing.T) {
	inTime(t, func(r *rig) {
		if by := r.gate.SettledBy(); !by.IsZero() {
			t.Errorf("nothing is to be waited for, and it is until %v", by)
		}
		r.start("a", 1).mustBeSent().lose()
		r.startOn("elsewhere", time.Hour, on("other", 1)).mustBeSent().lose()
		r.start("b", 1).mustBeSent()
		r.start("c", 1).mustBeSent()
		if by := r.gate.SettledBy(); time.Until(by) != settle {
			t.Errorf("settled by %v", by)
		}
		r.start("d", 2).mustWait()
		s := r.gate.Status("k", true)
		if len(s.InFlight) != 1 || s.InFlight[0].Count != 2 || s.InFlight[0].Token != tok(1) ||
			len(s.Unsettled) != 1 || s.Unsettled[0].Why != "reset" || time.Until(s.Unsettled[0].Until) != settle ||
			s.Waiting != 1 || !s.QuarantinedUntil.IsZero() {
			t.Errorf("%+v", s)
		}
		if c := r.gate.Counts(); c.InFlight != 2 || c.Unsettled != 2 || c.Waiting != 1 {
			t.Errorf("%+v", c)
		}
		r.crash()
		if s := r.gate.Status("k", true); time.Until(s.QuarantinedUntil) != settle {
			t.Errorf("after a crash: %+v", s)
		}
		if by := r.gate.SettledBy(); time.Until(by) != settle {
			t.Errorf("settled after a crash by %v", by)
		}
		if s := r.gate.Status("new", false); !s.QuarantinedUntil.IsZero() {
			t.Errorf("a key without a record: %+v", s)
		}
	})
}

// Settle and Unsettle: the first one counts, whatever comes later.
func TestTheFirstWordCounts(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		w1.lose()
		w1.ticket.Settle()
		w2 := r.start("w2", 2).mustWait()
		after(settle)
		w2.mustBeSent().answer()
		w2.lose()
		r.start("w3", 3).mustBeSent().answer()
	})
}
