package gate

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

func held(holder string, n uint64) Claim {
	return Claim{Key: "k", Token: tok(n), Holder: holder}
}

var tokenless = Claim{Key: "k", Tokenless: true, Suspect: true}

// suspect is a claim of a rule that lets writes pass without a token.
func suspect(n uint64) Claim { return Claim{Key: "k", Token: tok(n), Suspect: true} }

func (w *write) mustCollide() *write {
	w.r.Helper()
	var collision *tokenstore.CollisionError
	if w.look(); !errors.As(w.err, &collision) {
		w.r.Errorf("%s: want a collision, got done %v, %v", w.name, w.done, w.err)
	}
	return w
}

// An equal token of another holder is refused, however it meets the first
// one: settled, in flight, on its way to the disk, forgotten by memory, after
// a crash.
func TestHolder(t *testing.T) {
	inTime(t, func(r *rig) {
		release := r.disk.hold(&r.disk.holdSync)
		a := r.startOn("a", time.Hour, held("A", 1)).mustWait()
		b := r.startOn("b", time.Hour, held("B", 1)).mustWait()
		release()
		synctest.Wait()
		a.mustBeSent()
		b.mustCollide()
		r.startOn("b again", time.Hour, held("B", 1)).mustCollide()
		r.startOn("a again", time.Hour, held("A", 1)).mustBeSent().answer()
		a.answer()
		r.boot()
		r.startOn("b later", time.Hour, held("B", 1)).mustCollide()
		if err := r.gate.Check(r.Context(), []Claim{held("B", 1)}, time.Minute); err == nil {
			t.Error("Check lets a collision pass")
		}
		r.startOn("b with its own", time.Hour, held("B", 2)).mustBeSent().answer()
		r.startOn("a is stale", time.Hour, held("A", 1)).mustBeStale(false)
	})
}

// A record without a holder takes the first that comes, durably.
func TestHolderAdopted(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("nobody", 1).mustBeSent().answer()
		r.startOn("a", time.Hour, held("A", 1)).mustBeSent().answer()
		if got := r.disk.record("k").Holder; got != "A" {
			t.Errorf("the holder on disk is %q", got)
		}
		r.startOn("b", time.Hour, held("B", 1)).mustCollide()
		r.start("nobody again", 1).mustBeSent().answer()
	})
}

// A write without a token is refused by nothing and waits for nothing; fenced
// writes wait for it, equal tokens too.
func TestTokenless(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.startOn("a", time.Hour, tokenless).mustBeSent()
		w1 := r.startOn("w1", time.Hour, suspect(1)).mustWait()
		if !closed(a.ticket.Overtaken()) {
			t.Error("the raise does not cut its upload")
		}
		a.ticket.Settle()
		synctest.Wait()
		w1.mustBeSent()
		b := r.startOn("b", time.Hour, tokenless).mustBeSent()
		w1b := r.startOn("w1 too", time.Hour, suspect(1)).mustWait()
		w1.answer()
		b.lose()
		after(settle - time.Millisecond)
		w1b.mustWait()
		after(time.Millisecond)
		w1b.mustBeSent().answer()
		if r.disk.record("k").Clear {
			t.Error("the record says clear, and cannot know")
		}
		clean := r.stop()
		r.startOn("c", time.Hour, tokenless).mustFail(ErrStopping)
		if !clean.Load() {
			t.Error("not idle")
		}
	})
}

// What a write without a token leaves behind is known to no record: after a
// crash every write of such a rule waits, record or not, clear or not.
func TestTokenlessCrash(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w1", 1).mustBeSent().answer() // clear, from when a token was required
		r.startOn("a", time.Hour, tokenless).mustBeSent()
		r.crash()
		w1 := r.startOn("w1", time.Hour, suspect(1)).mustWait()
		other := r.startOn("other", time.Hour, Claim{Key: "other", Token: tok(1), Suspect: true}).mustWait()
		b := r.startOn("b", time.Hour, tokenless).mustBeSent()
		b.ticket.Settle()
		after(settle)
		w1.mustBeSent().answer()
		other.mustBeSent().answer()
	})
}

// A fenced read raises and drains like a write, and holds nothing.
func TestRead(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		read := r.read("read", on("k", 2)).mustWait()
		r.start("w1 again", 1).mustBeStale(false) // between the read and its write
		w1.answer()
		if read.look(); read.err != nil || !read.done {
			t.Errorf("the read: %v", read.err)
		}
		if c := r.gate.Counts(); c.InFlight != 0 || c.Waiting != 0 {
			t.Errorf("it holds something: %+v", c)
		}
		read.ticket.Settle() // of no effect
		r.start("w3", 3).mustBeSent().answer()
		r.read("stale read", on("k", 2)).mustBeStale(false)
	})
}

// Observe refuses nothing and waits for nothing but the record; marks and
// writes in flight are kept as by Enter.
func TestObserve(t *testing.T) {
	inTime(t, func(r *rig) {
		w2 := r.observe("w2", on("k", 2)).mustBeSent()
		if w2.would != nil || r.disk.record("k").Highest != tok(2) {
			t.Errorf("would %v", w2.would)
		}
		w1 := r.observe("w1", on("k", 1)).mustBeSent()
		var stale *StaleError
		if !errors.As(w1.would, &stale) {
			t.Errorf("w1 would %v, want stale", w1.would)
		}
		w3 := r.observe("w3", on("k", 3)).mustBeSent()
		if !errors.Is(w3.would, ErrWouldWait) || r.disk.record("k").Clear {
			t.Errorf("w3 would %v; clear is %v", w3.would, r.disk.record("k").Clear)
		}
		// A switch to enforce loses nothing.
		w4 := r.start("w4", 4).mustWait()
		w2.ticket.Settle()
		w3.ticket.Settle()
		synctest.Wait()
		w4.mustWait()
		w1.ticket.Settle()
		synctest.Wait()
		w4.mustBeSent().answer()
	})
}

func TestObserveWaitsForTheRecord(t *testing.T) {
	inTime(t, func(r *rig) {
		release := r.disk.hold(&r.disk.holdSync)
		a := r.observe("a", on("k", 1)).mustWait()
		b := r.observe("b", on("k", 1)).mustWait()
		release()
		synctest.Wait()
		for _, w := range []*write{a, b} {
			if w.mustBeSent(); w.would != nil {
				t.Errorf("%s would %v", w.name, w.would)
			}
			w.answer()
		}
	})
}

func TestObserveStoreFails(t *testing.T) {
	inTime(t, func(r *rig) {
		r.disk.break_(errDisk)
		a := r.observe("a", on("k", 1)).mustBeSent()
		if !errors.Is(a.would, tokenstore.ErrUnavailable) {
			t.Errorf("would %v", a.would)
		}
		r.disk.break_(nil)
		w2 := r.start("w2", 2).mustWait() // a is in flight all the same
		a.answer()
		w2.mustBeSent().answer()
	})
}

func TestObserveStops(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.observe("a", on("k", 1)).mustBeSent()
		clean := r.stop()
		r.observe("b", on("k", 1)).mustFail(ErrStopping)
		if clean.Load() {
			t.Error("idle with an observed write in flight")
		}
		a.answer()
		if !clean.Load() {
			t.Error("not idle")
		}
	})
}

func TestImplausible(t *testing.T) {
	inTime(t, func(r *rig) {
		jump := func(n uint64) error {
			return r.gate.Check(r.Context(), []Claim{{Key: "k", Token: tok(n), MaxJump: 10}}, time.Minute)
		}
		if err := jump(math.MaxUint64); err != nil {
			t.Errorf("a key without a record may begin anywhere: %v", err)
		}
		r.start("w5", 5).mustBeSent().answer()
		for n, want := range map[uint64]bool{5: true, 15: true, 16: false, math.MaxUint64: false} {
			var implausible *ImplausibleError
			if err := jump(n); errors.As(err, &implausible) == want {
				t.Errorf("%d after 5: %v", n, err)
			}
		}
		if err := r.gate.Check(r.Context(), []Claim{{Key: "k", Token: tokenstore.Token{Epoch: 1, Major: 100}, MaxJump: 10}}, time.Minute); err != nil {
			t.Errorf("a higher epoch may begin anywhere: %v", err)
		}
	})
}
