package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Forget implements tokenstore.Forgetter.
func (d *disk) Forget(_ context.Context, k tokenstore.Key, was tokenstore.Record) error {
	d.mu.Lock()
	hold, life := d.holdForget, d.crashes
	d.mu.Unlock()
	if hold != nil {
		<-hold
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.crashes != life {
		return tokenstore.ErrUnavailable
	}
	if rec, ok := d.records[k]; ok && !rec.Same(was) {
		return &tokenstore.InUseError{Key: k, Why: "its token was raised meanwhile"}
	}
	delete(d.records, k)
	return d.failForget
}

func (r *rig) forget(key tokenstore.Key) (Forgotten, error) {
	return r.gate.Forget(context.Background(), key, nil)
}

func (r *rig) mustForget(key tokenstore.Key) {
	r.Helper()
	if f, err := r.forget(key); err != nil || !f.Exists {
		r.Errorf("Forget = %+v, %v", f, err)
	}
}

func (r *rig) mustBeInUse(why string) {
	r.Helper()
	before := r.disk.record("k")
	_, err := r.forget("k")
	if used := (*tokenstore.InUseError)(nil); !errors.As(err, &used) || !strings.Contains(used.Why, why) {
		r.Errorf("Forget = %v, want an *InUseError: %s", err, why)
	}
	if r.disk.record("k") != before {
		r.Error("the record is another one")
	}
}

// landAnew lets the judge begin anew with a key that was forgotten.
func (r *rig) landAnew(key tokenstore.Key) { delete(r.last, key) }

func TestForget(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w7", 7).mustBeSent().answer()
		r.mustForget("k")
		if _, ok := r.disk.records["k"]; ok {
			t.Error("the record is there")
		}
		r.landAnew("k")
		r.start("w3", 3).mustBeSent().answer()
		r.start("w2", 2).mustBeStale(false)
		r.mustForget("k")
		if f, err := r.forget("k"); err != nil || f.Exists {
			t.Errorf("a second time: %+v, %v", f, err)
		}
	})
}

// Where anything goes on at a key, it is not forgotten.
func TestForgetInUse(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		r.mustBeInUse("in flight")
		w2 := r.start("w2", 2).mustWait()
		r.mustBeInUse("in flight")
		w1.lose()
		r.mustBeInUse("unsettled")
		after(settle)
		w2.mustBeSent().answer()
		release := r.disk.hold(&r.disk.holdSync)
		w3 := r.start("w3", 3).mustWait()
		r.mustBeInUse("raise")
		release()
		synctest.Wait()
		w3.mustBeSent().answer()
		// A raise whose answer was lost may be on the disk, or come there later.
		release = r.disk.hold(&r.disk.holdSync)
		r.disk.late = true
		r.startOn("w4", time.Second, Claim{Key: "k", Token: tok(4)})
		after(2 * time.Second)
		r.mustBeInUse("its last raise")
		release()
		synctest.Wait()
		r.mustBeInUse("its last raise")
		r.start("w5", 5).mustBeSent().answer()
		r.mustForget("k")
	})
}

// A key is quarantined after a crash, record or not; a vouch ends that.
func TestForgetQuarantined(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		r.start("w2", 2).mustWait()
		r.crash()
		r.mustBeInUse("quarantined")
		w1.land()
		after(settle)
		r.mustForget("k")
	})
}

// A reload that lets writes without a token pass quarantines keys without a record
// too: they are not forgotten either, as their status says.
func TestForgetQuarantinedByReload(t *testing.T) {
	inTime(t, func(r *rig) {
		r.startOn("other", time.Hour, on("other", 1)).mustBeSent()
		r.crash()
		r.start("w1", 1).mustBeSent().answer()
		r.gate.Change(Options{Unordered: true})
		if r.gate.Status("k", true).QuarantinedUntil.IsZero() {
			t.Error("k is not quarantined")
		}
		r.mustBeInUse("quarantined")
		after(settle)
		r.mustForget("k")
	})
}

// A write that comes while its key is forgotten waits, and begins anew; what
// counts is decided after the removal is durable. A crash before that finds the
// record, or none and nothing in flight.
func TestForgetHoldsWrites(t *testing.T) {
	for _, crash := range []bool{false, true} {
		inTime(t, func(r *rig) {
			r.start("w7", 7).mustBeSent().answer()
			release := r.disk.hold(&r.disk.holdForget)
			done := make(chan error, 1)
			go func() { _, err := r.forget("k"); done <- err }()
			synctest.Wait()
			equal, lower := r.start("w7 again", 7).mustWait(), r.start("w3", 3).mustWait()
			beside := r.startOn("k and l", time.Hour, Claim{Key: "k", Token: tok(8)}, Claim{Key: "l", Token: tok(1)}).mustWait()
			if _, ok := r.disk.records["l"]; ok {
				t.Error("one of two keys was raised before the other was checked")
			}
			r.mustBeInUse("being forgotten")
			if crash {
				r.crash()
				<-done
				after(settle)
				r.start("w3", 3).mustBeStale(false)
				return
			}
			release()
			synctest.Wait()
			if err := <-done; err != nil {
				t.Error(err)
			}
			r.landAnew("k")
			// All three raise anew: the highest goes last, or the others are stale.
			for range 3 {
				for _, w := range []*write{lower, equal, beside} {
					if w.look(); w.sent {
						w.answer()
					}
				}
			}
			if beside.look(); !beside.sent {
				t.Errorf("the highest was not sent: %v", beside.err)
			}
			if r.disk.record("k").Highest != tok(8) {
				t.Errorf("record: %+v", r.disk.record("k"))
			}
		})
	}
}

// A record that was read before its key was forgotten, by a write that came
// before, is not believed afterwards: a crash would find no record of it.
func TestForgetWhileLoaded(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w7", 7).mustBeSent().answer()
		r.gate.Stop()
		r.boot()
		r.disk.hold(&r.disk.holdLoad)
		again := r.start("w7 again", 7).mustWait() // has read the record
		r.disk.mu.Lock()
		held := r.disk.holdLoad
		r.disk.holdLoad = nil
		r.disk.mu.Unlock()
		r.mustForget("k")
		close(held)
		synctest.Wait()
		again.mustBeSent()
		if r.disk.record("k").Highest != tok(7) {
			t.Errorf("sent without a record: %+v", r.disk.record("k"))
		}
		r.landAnew("k")
		again.land()
		r.crash()
		r.start("w3", 3).mustBeStale(false)
	})
}

// After an unknown result nothing is believed of the key: its record is read
// again.
func TestForgetUnknown(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w7", 7).mustBeSent().answer()
		r.disk.failForget = tokenstore.ErrUnavailable
		if _, err := r.forget("k"); !errors.Is(err, tokenstore.ErrUnavailable) {
			t.Errorf("Forget = %v", err)
		}
		r.landAnew("k")
		w3 := r.start("w3", 3).mustBeSent() // it was removed
		w3.answer()
		if r.disk.record("k").Highest != tok(3) {
			t.Error("the raise after it is not on record")
		}
	})
}

// The record is looked at once more when the writes are held: a list may be
// long ago.
func TestForgetOnly(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w7", 7).mustBeSent().answer()
		_, err := r.gate.Forget(context.Background(), "k", func(rec tokenstore.Record) bool { return rec.Highest != tok(7) })
		if used := (*tokenstore.InUseError)(nil); !errors.As(err, &used) || r.disk.record("k").Highest != tok(7) {
			t.Errorf("Forget = %v", err)
		}
	})
}

// An operator's word ends what was lost from sight, and nothing that is in
// flight.
func TestSettleUnsettled(t *testing.T) {
	inTime(t, func(r *rig) {
		a := r.startOn("a", time.Hour, Claim{Key: "k", Token: tok(1)}, Claim{Key: "l", Token: tok(1)}).mustBeSent()
		b := r.start("b", 1).mustBeSent()
		a.lose()
		w2 := r.start("w2", 2).mustWait()
		l2 := r.startOn("l2", time.Hour, Claim{Key: "l", Token: tok(2)}).mustWait()
		done, err := r.gate.Settle("k")
		if err != nil || len(done.Unsettled) != 1 || done.Unsettled[0].Token != tok(1) || len(done.Also) != 1 || done.Also[0] != "l" || done.Quarantine {
			t.Errorf("Settle = %+v, %v", done, err)
		}
		synctest.Wait()
		l2.mustBeSent().answer()
		w2.mustWait() // for b
		b.answer()
		w2.mustBeSent().answer()
		if done, err = r.gate.Settle("k"); err != nil || len(done.Unsettled) > 0 {
			t.Errorf("a second time: %+v, %v", done, err)
		}
		if c := r.gate.Counts(); c.Unsettled != 0 || c.InFlight != 0 {
			t.Errorf("%+v", c)
		}
	})
}

func TestSettleQuarantine(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		inTime(t, func(r *rig) {
			r.opts.Unordered = unordered
			r.boot()
			r.start("w1", 1).mustBeSent().land()
			r.startOn("l1", time.Hour, Claim{Key: "l", Token: tok(1)}).mustBeSent().land()
			r.crash()
			w2 := r.start("w2", 2).mustWait()
			l2 := r.startOn("l2", time.Hour, Claim{Key: "l", Token: tok(2)}).mustWait()
			done, err := r.gate.Settle("k")
			if err != nil || !done.Quarantine {
				t.Errorf("Settle = %+v, %v", done, err)
			}
			synctest.Wait()
			w2.mustBeSent().answer()
			l2.mustWait()
			if st := r.gate.Status("k", true); !st.QuarantinedUntil.IsZero() {
				t.Errorf("%+v", st)
			}
			if !unordered && !r.disk.record("k").Clear {
				t.Error("the record does not say clear, and nothing lower can land")
			}
			r.mustForget("k")
			r.landAnew("k")
			after(settle)
			l2.mustBeSent().answer()
			for i := range r.gate.table.shard {
				if r.gate.table.shard[i].vouched != nil {
					t.Error("what was vouched for stays behind the quarantine")
				}
			}
		})
	}
}

// A token that is recorded alone waits for no older write, and the next one
// does.
func TestRecord(t *testing.T) {
	inTime(t, func(r *rig) {
		w1 := r.start("w1", 1).mustBeSent()
		record := func(n uint64) error {
			return r.gate.Record(context.Background(), Claim{Key: "k", Token: tok(n), Holder: "h"}, time.Second)
		}
		if err := record(5); err != nil || r.disk.record("k").Highest != tok(5) || r.disk.record("k").Clear {
			t.Errorf("Record = %v, %+v", err, r.disk.record("k"))
		}
		if err := record(5); err != nil {
			t.Errorf("the same again: %v", err)
		}
		var stale *StaleError
		if err := record(4); !errors.As(err, &stale) || stale.Highest != tok(5) {
			t.Errorf("a lower one: %v", err)
		}
		r.start("w2", 2).mustBeStale(false)
		w5 := r.startOn("w5", time.Hour, Claim{Key: "k", Token: tok(5), Holder: "h"}).mustWait()
		w1.answer()
		w5.mustBeSent().answer()
		if c := r.gate.Counts(); c.InFlight != 0 {
			t.Errorf("%+v", c)
		}
		r.disk.break_(tokenstore.ErrUnavailable)
		if err := record(9); !errors.Is(err, tokenstore.ErrUnavailable) {
			t.Errorf("Record = %v", err)
		}
	})
}

// A write that waits for another proxy's keeps its key from being forgotten.
func TestSharedForgetWaited(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		w1 := r.start("w1", 1).mustWait()
		r.mustBeInUse("waiting")
		close(last().drained)
		synctest.Wait()
		w1.mustBeSent().answer()
		r.mustForget("k")
		r.landAnew("k")
	})
}

// Over a shared store it gives its grant back.
func TestSharedRecord(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		if err := r.gate.Record(context.Background(), Claim{Key: "k", Token: tok(5)}, time.Second); err != nil {
			t.Fatal(err)
		}
		if last().released.Load() != 1 {
			t.Error("its grant is kept")
		}
	})
}
