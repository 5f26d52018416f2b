package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// look lets a write arrive that is only looked on; what was seen is in seen.
func (r *rig) observe(name string, seen *Seen, claims ...Claim) *write {
	r.Helper()
	w := r.arrive(name, func(ctx context.Context, w *write) (err error) {
		*seen, err = w.gate.Observe(ctx, Request{Claims: claims, DrainTimeout: time.Hour, Settle: settle}, &w.ticket)
		return err
	}, claims)
	w.claims = nil
	return w
}

// What is looked on is raised durably and registered, refused never, and
// waits for nothing but the record; what Enter would have done is seen.
func TestObserve(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		var seen Seen
		release := r.disk.hold(&r.disk.holdSync)
		o2 := r.observe("o2", &seen, on("k", 2)).mustWait() // for the record
		release()
		synctest.Wait()
		o2.mustBeSent()
		if seen != (Seen{}) || r.disk.record("k").Highest != tok(2) || r.disk.record("k").Clear {
			t.Errorf("%+v, the record %+v", seen, r.disk.record("k"))
		}
		o3 := r.observe("o3", &seen, on("k", 3)).mustBeSent()
		if !seen.Waits || seen.Refusal != nil || r.disk.record("k").Highest != tok(3) {
			t.Errorf("o3: %+v", seen)
		}
		if o2.overtaken() {
			t.Error("what is looked on is cut by what is looked on")
		}
		o1 := r.observe("o1", &seen, on("k", 1)).mustBeSent()
		var stale *StaleError
		if !errors.As(seen.Refusal, &stale) || stale.Highest != tok(3) || seen.Waits {
			t.Errorf("o1: %+v", seen)
		}
		// A switch to enforce, or a rule beside it, loses nothing.
		w3 := r.start("w3", 3).mustWait()
		after(time.Hour / 2) // w3 raised nothing: it has patience
		if !o2.overtaken() || !o1.overtaken() || o3.overtaken() {
			t.Error("the older ones are not told that a fenced write waits, or an equal one is")
		}
		o2.answer()
		w3.mustWait()
		o1.answer()
		w3.mustBeSent().answer()
		w4 := r.start("w4", 4).mustWait()
		o3.answer()
		w4.mustBeSent().answer()
	})
}

// What is only looked on, and overtaken while its own raise is on its way, is
// stale by what is on the disk then.
func TestObserveOvertaken(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		var first, second Seen
		release := r.disk.hold(&r.disk.holdSync)
		o2 := r.observe("o2", &first, on("k", 2)).mustWait()
		o3 := r.observe("o3", &second, on("k", 3)).mustWait()
		release()
		synctest.Wait()
		o2.mustBeSent()
		o3.mustBeSent()
		var stale *StaleError
		if !errors.As(first.Refusal, &stale) || second.Refusal != nil {
			t.Errorf("%+v %+v", first, second)
		}
		w := r.start("w", 3).mustWait()
		o2.answer()
		w.mustBeSent().answer()
		o3.answer()
	})
}

// A refusal raises none of the keys, and holds up fenced writes on all.
func TestObserveSeveral(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		var seen Seen
		r.startOn("b5", time.Hour, on("b", 5)).mustBeSent().answer()
		o := r.observe("o", &seen, on("a", 9), on("b", 4)).mustBeSent()
		if seen.Refusal == nil || r.disk.record("a").Highest != tok(0) {
			t.Errorf("%+v, a is at %v", seen, r.disk.record("a").Highest)
		}
		a, b := r.startOn("a", time.Hour, on("a", 1)).mustWait(), r.startOn("b", time.Hour, on("b", 5)).mustWait()
		o.answer()
		a.mustBeSent().answer()
		b.mustBeSent().answer()
	})
}

// An implausible token, another holder's and a store that fails: looked on,
// forwarded, and nothing of it counts.
func TestObserveRefusals(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		var seen Seen
		r.startOn("w5", time.Hour, held("A", 5)).mustBeSent().answer()
		check := func(name string, target any, claim Claim) {
			t.Helper()
			o := r.observe(name, &seen, claim).mustBeSent()
			if !errors.As(seen.Refusal, target) || r.disk.record("k").Highest != tok(5) || r.disk.record("k").Holder != "A" {
				t.Errorf("%s: %+v, %+v", name, seen, r.disk.record("k"))
			}
			w := r.startOn("fenced", time.Hour, held("A", 5)).mustWait()
			o.answer()
			w.mustBeSent().answer()
		}
		check("implausible", new(*ImplausibleError), Claim{Key: "k", Token: tok(1000), MaxJump: 10})
		check("a collision", new(*tokenstore.CollisionError), held("B", 5))

		r.disk.break_(tokenstore.ErrUnavailable)
		o := r.observe("no store", &seen, on("k", 6)).mustBeSent()
		if !errors.Is(seen.Refusal, tokenstore.ErrUnavailable) {
			t.Errorf("%+v", seen)
		}
		other := r.observe("nothing known", &seen, on("new", 6)).mustBeSent()
		if !errors.Is(seen.Refusal, tokenstore.ErrUnavailable) {
			t.Errorf("%+v", seen)
		}
		r.disk.break_(nil)
		w := r.start("w7", 7).mustWait()
		o.answer()
		w.mustBeSent().answer()
		other.answer()
	})
}

// A disk that hangs holds what is looked on no longer than drain_timeout.
func TestObserveSlowDisk(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		var a, b, c Seen
		release := r.disk.hold(&r.disk.holdSync)
		o1 := r.observe("o1", &a, on("k", 1)).mustWait()
		o1b := r.observe("o1b", &b, on("k", 1)).mustWait()
		left := r.observe("left", &c, on("k", 1)).mustWait()
		left.leave()
		synctest.Wait()
		left.mustFail(ErrLeft)
		after(time.Hour)
		o1.mustBeSent().answer()
		o1b.mustBeSent().answer()
		if !errors.Is(a.Refusal, tokenstore.ErrUnavailable) || !errors.Is(b.Refusal, tokenstore.ErrUnavailable) {
			t.Errorf("%+v %+v", a, b)
		}
		release()
	})
}

// What is looked on and waits for the disk takes nobody's place in the queue.
func TestObserveFillsNoQueue(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		r.opts.MaxWaitingPerKey, r.opts.MaxWaiting = 3, 10
		r.gate.Stop()
		r.boot()
		release := r.disk.hold(&r.disk.holdSync)
		seen, all := make([]Seen, 20), []*write{}
		for i := range seen {
			all = append(all, r.observe("o", &seen[i], on("k", 5)))
		}
		w := r.start("w", 6).mustWait()
		release()
		synctest.Wait()
		for _, o := range all {
			o.answer()
		}
		w.mustBeSent().answer()
	})
}
