package gate

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The stories of the protocol. Each is told to its bitter end: what the gate
// lets pass lands in the worst order, and the rig's judge looks at what was
// applied.

// A: a raise in memory only is forgotten by a crash.
func TestStoryA(t *testing.T) {
	inTime(t, func(r *rig) {
		r.disk.hold(&r.disk.holdSync)
		w2 := r.start("w2", 2)
		sent := w2.sent
		r.crash()
		w1 := r.start("w1", 1).mustBeSent()
		if sent {
			w2.sent = true
		}
		w2.land()
		w1.answer()
	})
}

// A2: an equal token must wait for the first one's raise as well.
func TestStoryA2(t *testing.T) {
	inTime(t, func(r *rig) {
		r.disk.hold(&r.disk.holdSync)
		w2a, w2b := r.start("w2a", 2), r.start("w2b", 2)
		a, b := w2a.sent, w2b.sent
		r.crash()
		w1 := r.start("w1", 1).mustBeSent()
		w2a.sent, w2b.sent = a, b
		w2a.land()
		w2b.land()
		w1.answer()
	})
}

// B: a newer write waits for the older one in flight.
func TestStoryB(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		w2 := r.start("w2", 2)
		w2.land()
		w1.answer()
		w2.mustBeSent().answer()
	})
}

// B2: an equal token waits for what the first one waits for.
func TestStoryB2(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		w2a, w2b := r.start("w2a", 2), r.start("w2b", 2)
		w2b.land()
		w2a.land()
		w1.answer()
		w2a.mustBeSent().answer()
		w2b.mustBeSent().answer()
	})
}

// C: the first check does not count; a higher token may have passed since.
func TestStoryC(t *testing.T) {
	inTime(t, func(r *rig) {
		release := r.disk.hold(&r.disk.holdAnswer)
		w1 := r.start("w1", 1).mustWait() // recorded, and does not know it yet
		r.disk.mu.Lock()
		r.disk.holdAnswer = nil
		r.disk.mu.Unlock()
		w2 := r.start("w2", 2).mustBeSent()
		w2.land()
		release()
		synctest.Wait()
		w1.land()
		w1.mustBeStale(true)
		w2.answer()
	})
}

// C2: the re-check and the registration are one step. A gate that lets go of
// the lock between them is caught here when it sleeps there.
func TestStoryC2(t *testing.T) {
	inTime(t, func(r *rig) {
		w2 := r.start("w2", 2)
		w3 := r.start("w3", 3)
		after(time.Second)
		w3.land()
		w2.mustBeSent().answer()
		w3.mustBeSent().answer()
	})
}

// D: a write that was lost from sight still counts.
func TestStoryD(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		w1.lose()
		w2 := r.start("w2", 2)
		w2.land()
		after(settle - time.Millisecond)
		w2.land()
		w1.land() // as late as settle allows
		after(time.Millisecond)
		w2.mustBeSent().answer()
	})
}

// E: a crash forgets what was in flight; the quarantine stands in for it.
func TestStoryE(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		r.crash()
		w2 := r.start("w2", 2)
		w2.land()
		after(settle - time.Millisecond)
		w2.land()
		w1.land()
		after(time.Millisecond)
		w2.mustBeSent().answer()
	})
}

// F2: no clean stop while something is in flight, or unsettled.
func TestStoryF2(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		stopped := r.stop()
		after(time.Hour)
		if stopped.Load() {
			t.Error("a clean stop with w1 in flight")
		}
		w1.lose()
		after(settle - time.Millisecond)
		if stopped.Load() {
			t.Error("a clean stop with w1 unsettled")
		}
		w1.land()
		after(time.Millisecond)
		if !stopped.Load() {
			t.Error("everything is over, and no clean stop")
		}
	})
}

// F2 once more, with nothing in flight at the stop.
func TestStoryF2Unsettled(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		w1.lose()
		stopped := r.stop()
		after(settle - time.Millisecond)
		if stopped.Load() {
			t.Error("a clean stop with w1 unsettled")
		}
		w1.land()
		after(time.Millisecond)
		if !stopped.Load() {
			t.Error("everything is over, and no clean stop")
		}
	})
}

// F3: no clean stop while a quarantine runs.
func TestStoryF3(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		r.crash()
		stopped := r.stop()
		after(settle - time.Millisecond)
		if stopped.Load() {
			t.Error("a clean stop during the quarantine")
		}
		w1.land()
		after(time.Millisecond)
		if !stopped.Load() {
			t.Error("the quarantine is over, and no clean stop")
		}
	})
}

// stop stops the gate; the result becomes true with a clean stop.
func (r *rig) stop() *atomic.Bool {
	r.gate.Stop()
	clean := new(atomic.Bool)
	go func() { clean.Store(r.gate.Idle(context.Background()) == nil) }()
	synctest.Wait()
	return clean
}

// H: what was read from the store may be old by the time it is filled in.
func TestStoryH(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w1", 1).mustBeSent().answer()
		r.boot() // memory is empty now
		release := r.disk.hold(&r.disk.holdLoad)
		w1 := r.start("w1 again", 1).mustWait() // has read 1
		r.disk.mu.Lock()
		r.disk.holdLoad = nil
		r.disk.mu.Unlock()
		w3 := r.start("w3", 3).mustBeSent()
		w3.answer()
		release()
		synctest.Wait()
		w1.land()
		w1.mustBeStale(false)
	})
}

// I: the client's leaving changes nothing once its write is admitted.
func TestStoryI(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		w1.leave()
		w2 := r.start("w2", 2)
		w2.land()
		w1.answer()
		w2.mustBeSent().answer()
	})
}

// L1, L2: a raise tells the older write in flight, once it is on disk and not
// before: its upload is cut, its slow reader detached.
func TestStoryL(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		release := r.disk.hold(&r.disk.holdSync)
		w2 := r.start("w2", 2).mustWait()
		if closed(w1.ticket.Overtaken()) {
			t.Error("w1 was told of a raise that is not on disk")
		}
		release()
		synctest.Wait()
		if !closed(w1.ticket.Overtaken()) {
			t.Error("w1 was not told of the raise")
		}
		w2.mustWait()
		w1.lose() // cut
		after(settle)
		w2.mustBeSent()
		if closed(w2.ticket.Overtaken()) {
			t.Error("w2 was told of its own raise")
		}
		w2.answer()
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Q: after a crash equal tokens wait too, since the record does not say that
// older writes were over.
func TestStoryQ(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		r.start("w2", 2).mustWait() // on disk
		r.crash()
		w2 := r.start("w2 again", 2)
		w2.land()
		after(settle - time.Millisecond)
		w2.land()
		w1.land()
		after(time.Millisecond)
		w2.mustBeSent().answer()
	})
}

// The other side of Q: a holder whose record says clear goes on at once after
// a crash, whether clear came with the raise or after the drain.
func TestClearGoesOnAtOnce(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w1", 1).mustBeSent() // nothing older: the raise carries clear
		r.crash()
		w1 := r.start("w1 again", 1).mustBeSent()
		w2 := r.start("w2", 2).mustWait()
		w1.answer()
		w2.mustWait() // for the first w1, which nobody watches
		after(settle)
		w2.mustBeSent() // clear is written now, lazily
		r.crash()
		r.start("w2 again", 2).mustBeSent().answer()
	})
}

// A key without a record does not wait after a crash, in any of its writes.
func TestNoRecordNoQuarantine(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w1", 1).mustBeSent()
		r.crash()
		other := Claim{Key: "other", Token: tok(1)}
		r.startOn("o1", time.Hour, other).mustBeSent().answer()
		other.Token = tok(2)
		r.startOn("o2", time.Hour, other).mustBeSent().answer()
		r.startOn("s1", time.Hour, Claim{Key: "suspect", Token: tok(1), Suspect: true}).mustWait()
	})
}
