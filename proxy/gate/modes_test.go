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

// suspect is a claim of a rule that was changed.
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
		if err := r.gate.Check(r.Context(), []Claim{held("B", 1)}, time.Minute, new(Ticket)); err == nil {
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

// What is recorded of a suspect key does not tell of all that was in flight:
// after a crash every write of it waits, record or not, clear or not.
func TestSuspectCrash(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w1", 1).mustBeSent().answer() // clear, under the rule as it was
		r.crash()
		w1 := r.startOn("w1", time.Hour, suspect(1)).mustWait()
		other := r.startOn("other", time.Hour, Claim{Key: "other", Token: tok(1), Suspect: true}).mustWait()
		after(settle)
		w1.mustBeSent().answer()
		other.mustBeSent().answer()
		r.startOn("w2", time.Hour, suspect(2)).mustBeSent().answer()
		if r.disk.record("k").Clear {
			t.Error("the record of a suspect key says clear")
		}
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

func TestImplausible(t *testing.T) {
	inTime(t, func(r *rig) {
		jump := func(n uint64) error {
			return r.gate.Check(r.Context(), []Claim{{Key: "k", Token: tok(n), MaxJump: 10}}, time.Minute, new(Ticket))
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
		if err := r.gate.Check(r.Context(), []Claim{{Key: "k", Token: tokenstore.Token{Epoch: 1, Major: 100}, MaxJump: 10}}, time.Minute, new(Ticket)); err != nil {
			t.Errorf("a higher epoch may begin anywhere: %v", err)
		}
	})
}
