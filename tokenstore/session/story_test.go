package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
)

// The stories of the protocol's third section. w1 is at RA, w2 at RB, and w2
// must not be sent while w1 may still land. Times are from the beginning:
// keepalives at 2.67 s, 5.33 s, …, each good for 8 s from when it was sent.

// X1: RA is cut off from the store alone, and still watches w1.
func TestStoryX1(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		a.port.Cut(true)
		w2 := b.ask("w2", 2).mustWait()
		r.at(ttl - margin - time.Millisecond)
		if w1.wasCut() {
			t.Error("w1 was cut before the deadline")
		}
		r.at(ttl - margin)
		if !w1.wasCut() {
			t.Error("w1 was not cut at the deadline")
		}
		r.at(ttl - margin + settle) // the last moment at which w1 may land
		w2.mustWait()
		w1.mustLand()
		w2.mustBeAdmitted(margin + 3*time.Second).send()
		w2.mustLand()
	})
}

// X2: RA is paused between the check and the send, for as long as it may be.
func TestStoryX2(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		a.port.Cut(true)
		w2 := b.ask("w2", 2).mustWait()
		r.at(ttl - margin - time.Millisecond)
		if !w1.grant.MaySend() {
			t.Fatal("w1 may not be sent before the deadline")
		}
		a.port.Pause()
		r.at(ttl - margin/2)
		w1.sendLate() // a step that was due, P late
		r.at(ttl)     // and the cut of it, P late again
		a.port.Resume()
		if !w1.wasCut() {
			t.Error("w1 was not cut")
		}
		r.at(ttl + settle - time.Millisecond)
		w2.mustWait()
		w1.mustLand()
		w2.mustBeAdmitted(3 * time.Second).send()
		w2.mustLand()
	})
}

// A7: a pause that is longer than the settings allow for breaks the order.
func TestLongPauseBreaksIt(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w2 := b.ask("w2", 2).mustWait()
		if !w1.grant.MaySend() {
			t.Fatal("w1 may not be sent")
		}
		a.port.Pause()
		w2.mustBeAdmitted(time.Minute).send()
		w2.mustLand()
		w1.sendLate()
		if w1.lands() == nil {
			t.Error("w1 was paused for a minute, and landed in order: this test shows nothing any more")
		}
	})
}

// X3: the session is over, and RA sends all the same.
func TestStoryX3(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		a.port.Cut(true)
		w2 := b.ask("w2", 2).mustWait()
		r.at(ttl - margin)
		if w1.send() {
			t.Error("w1 was sent at the deadline")
		}
		w2.mustBeAdmitted(ttl + settle)
	})
}

// X4: RA's machine is suspended. Its timers have stood still: nothing but the
// clock can tell that the session is over.
func TestStoryX4(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.proxy("RA")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1b := a.ask("w1b", 1).mustBeAdmitted(0)
		w1b.send()
		a.port.Cut(true)
		a.slept.Store(int64(time.Hour))
		if w1.grant.MaySend() {
			t.Error("w1 may be sent after an hour of sleep")
		}
		if a.store.Remaining() != 0 {
			t.Errorf("%v remain of the session after an hour of sleep", a.store.Remaining())
		}
		r.at(margin / 4)
		if !w1b.wasCut() {
			t.Error("w1b was not cut soon after the sleep")
		}
	})
}

// TestClockCountsSuspend: X4 is true of the clock that is used by default as far
// as a test can tell without suspending the machine.
func TestClockCountsSuspend(t *testing.T) {
	before := session.Boottime()
	time.Sleep(10 * time.Millisecond)
	if d := session.Boottime() - before; d < 10*time.Millisecond || d > time.Minute {
		t.Errorf("the clock went on by %v in 10 ms", d)
	}
}

// X5: w1's entry outlives the session of RA, which has crashed.
func TestStoryX5(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		a.port.Cut(true)
		r.at(ttl + time.Second) // expired, and asked for only now
		w2 := b.ask("w2", 2).mustWait()
		r.at(ttl - margin + settle)
		w2.mustWait()
		w1.mustLand()
		w2.mustBeAdmitted(margin + 3*time.Second)
	})
}

// X6: RA registers again. A grant of before must not carry a write.
func TestStoryX6(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		a.do("w0", 1) // leaves a sticky grant
		a.port.Cut(true)
		r.at(ttl - margin)
		if err := a.ask("w0", 1).err; err == nil {
			t.Error("a write was admitted without a session")
		}
		r.at(ttl + time.Second)
		a.port.Cut(false)
		r.at(ttl + 10*time.Second)
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		w2 := b.ask("w2", 2).mustWait()
		r.at(2*ttl + 2*settle) // all of the old session is gone
		w2.mustWait()
		w1.mustLand()
		w2.mustBeAdmitted(time.Second)
	})
}

// X7: nothing is heard of at RA but what comes with its keepalives.
func TestStoryX7(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		a.do("w1", 1)
		a.port.Deafen(true)
		b.port.Deafen(true)
		w2 := b.ask("w2", 2).mustWait()
		w2.mustBeAdmitted(4 * time.Second)
		if a.store.Grants() != 0 {
			t.Errorf("RA has still %d grants", a.store.Grants())
		}
	})
}

// X8: raise and entry are one step of the store. RA does not hear of raises.
func TestStoryX8(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA"), r.proxy("RB")
		a.port.Deafen(true)
		var w1, w2 *write
		go func() { w1 = a.ask("w1", 1) }()
		time.Sleep(500 * time.Microsecond)
		go func() { w2 = b.ask("w2", 2) }()
		r.at(100 * time.Millisecond)
		if w1.admitted() && w2.admitted() {
			t.Error("w1 and w2 are admitted")
		}
		w1.mustBeAdmitted(0).send()
		w2.mustWait()
		w1.mustLand()
		w2.mustBeAdmitted(5 * time.Second)
	})
}

// X9: an idle grant is on its way out of the store when a write comes.
func TestStoryX9(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA", func(o *session.Options) { o.IdleAfter = 20 * time.Second; o.OpTimeout = time.Minute }), r.proxy("RB")
		a.do("w0", 1)
		release := a.port.Hold(session.OpDelete)
		r.at(25 * time.Second)
		if n := a.port.Calls(session.OpDelete); n != 1 {
			t.Fatalf("%d deletes are under way, want 1", n)
		}
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		release()
		synctest.Wait()
		w2 := b.ask("w2", 2).mustWait()
		r.at(time.Minute)
		w2.mustWait()
		w1.mustLand()
		w2.mustBeAdmitted(time.Second)
	})
}

// X10: a delete gets no answer and arrives when its key is acquired again.
func TestStoryX10(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("RA", func(o *session.Options) { o.IdleAfter = 20 * time.Second }), r.proxy("RB")
		a.do("w0", 1)
		a.port.Fates(func(op session.Op) (f sessiontest.Fate) {
			if op == session.OpDelete {
				f.Late = 3 * time.Second
			}
			return f
		})
		r.at(22 * time.Second)
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		r.at(40 * time.Second) // the old delete has arrived, more than once
		w2 := b.ask("w2", 2).mustWait()
		r.at(time.Minute)
		w2.mustWait()
		w1.mustLand()
		a.port.Fates(nil)
		w2.mustBeAdmitted(10 * time.Second)
	})
}

// X12: an acquire gets no answer, and is done later. Nobody owns its entry.
func TestStoryX12(t *testing.T) {
	for name, deaf := range map[string]bool{"heard of": false, "found by the keepalive": true} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(r *rig) {
				a, b := r.proxy("RA"), r.proxy("RB")
				a.port.Deafen(deaf)
				a.port.Fates(func(op session.Op) (f sessiontest.Fate) {
					if op == session.OpAcquire {
						f.Late = 7 * time.Second
					}
					return f
				})
				w1 := a.ask("w1", 1)
				r.at(6 * time.Second)
				w1.mustFail(tokenstore.ErrUnavailable)
				r.at(8 * time.Second)
				if n := len(r.engine.Open("k")); deaf && n != 1 {
					t.Fatalf("%d entries are there, want that of w1", n)
				}
				a.port.Fates(nil)
				w2 := b.ask("w2", 2)
				w2.mustBeAdmitted(4 * time.Second)
			})
		})
	}
	t.Run("nobody asks for it", func(t *testing.T) {
		inTime(t, func(r *rig) {
			a := r.proxy("RA")
			a.port.Deafen(true)
			a.port.Fates(func(op session.Op) (f sessiontest.Fate) {
				if op == session.OpAcquire {
					f.Late = 7 * time.Second
				}
				return f
			})
			a.ask("w1", 1)
			r.at(time.Minute)
			if n := len(r.engine.Open("k")); n != 0 {
				t.Errorf("%d entries are left that nobody owns", n)
			}
		})
	})
}
