package gate

import (
	"testing"
	"time"
)

func TestSeveralKeys(t *testing.T) {
	inTime(t, func(r *rig) {
		a1 := r.startOn("a1", time.Hour, on("a", 1)).mustBeSent()
		ab := r.startOn("ab", time.Hour, on("a", 2), on("b", 2)).mustWait()
		r.startOn("b1", time.Hour, on("b", 1)).mustBeStale(false) // both are raised
		if r.disk.record("a").Highest != tok(2) || r.disk.record("b").Highest != tok(2) {
			t.Error("not both keys are on disk")
		}
		b2 := r.startOn("b2", time.Hour, on("b", 2)).mustBeSent() // nothing is held while waiting
		b2.answer()
		a1.answer()
		ab.mustBeSent()
		a3 := r.startOn("a3", time.Hour, on("a", 3)).mustWait()
		b3 := r.startOn("b3", time.Hour, on("b", 3)).mustWait()
		ab.answer()
		a3.mustBeSent().answer()
		b3.mustBeSent().answer()
	})
}

// All keys are checked before one is raised.
func TestSeveralKeysOneStale(t *testing.T) {
	inTime(t, func(r *rig) {
		r.startOn("b5", time.Hour, on("b", 5)).mustBeSent().answer()
		r.startOn("ab", time.Hour, on("a", 9), on("b", 4)).mustBeStale(false)
		if _, ok := r.disk.records["a"]; ok {
			t.Error("a refused write raised its other key")
		}
	})
}

// All keys are raised before one is drained: nobody lower gets in on the
// second key while the first is waited for.
func TestSeveralKeysRaisedBeforeDrain(t *testing.T) {
	inTime(t, func(r *rig) {
		old := r.startOn("a1", time.Hour, on("a", 1)).mustBeSent()
		a2 := r.startOn("a2", time.Hour, on("a", 2)).mustWait() // a is on disk
		ab := r.startOn("ab", time.Hour, on("a", 2), on("b", 2)).mustWait()
		if r.disk.record("b").Highest != tok(2) {
			t.Error("b is not raised")
		}
		r.startOn("b1", time.Hour, on("b", 1)).mustBeStale(false)
		old.answer()
		a2.mustBeSent().answer()
		ab.mustBeSent().answer()
	})
}

// All keys are checked again in the last step, whichever was overtaken while
// the write waited for the other.
func TestSeveralKeysAllRechecked(t *testing.T) {
	for _, first := range []string{"a", "b"} {
		other := map[string]string{"a": "b", "b": "a"}[first]
		t.Run("overtaken on "+other, func(t *testing.T) {
			inTime(t, func(r *rig) {
				old := r.startOn("old", time.Hour, on(first, 1)).mustBeSent()
				both := r.startOn("both", time.Hour, on("a", 2), on("b", 2)).mustWait()
				newer := r.startOn("newer", time.Hour, on(other, 3)).mustBeSent()
				newer.land()
				old.answer()
				both.land()
				both.mustBeStale(true)
				newer.answer()
			})
		})
	}
}

func TestSeveralKeysNoDeadlock(t *testing.T) {
	inTime(t, func(r *rig) {
		var all []*write
		for i := range uint64(8) {
			all = append(all, r.startOn("ab", time.Hour, on("a", i/2), on("b", i/2)), r.startOn("ba", time.Hour, on("b", i/2), on("a", i/2)))
		}
		for range all {
			for _, w := range all {
				if w.look(); w.sent && !w.landed {
					w.answer()
				}
			}
		}
		for i, w := range all {
			if !w.done {
				t.Errorf("write %d still waits", i)
			}
		}
	})
}
