package gate

import (
	"context"
	"errors"
	"time"
)

// Seen is what Enter would have done with a write that was only looked on;
// the zero Seen says that it would have gone straight through.
type Seen struct {
	// Refusal is the error that would have refused it; nil for none.
	Refusal error
	// Waits says that it would have waited for older writes of this proxy. Of
	// those of others nobody asks: most of them would be over in a moment.
	Waits bool
}

// maxObserved is how long a write that is only looked on waits for the disk at
// the most.
const maxObserved = time.Second

// Observe is Enter for a write that is only looked on: it is raised durably
// and registered as Enter would (rules 5, 6 and 8), but it waits for nothing
// but the record, and nothing refuses it. What Enter would refuse raises
// nothing, and is registered as unordered on all its keys, whose fenced writes
// then wait for it. It needs Options.Unordered.
//
// After nil the caller sends the write and must end the ticket, as after
// Enter. The error is ErrLeft or ErrStopping, and nothing may be sent then.
func (g *Gate) Observe(ctx context.Context, r Request, t *Ticket) (Seen, error) {
	if !g.unordered.Load() {
		panic("gate: Observe, and Options.Unordered is not set: a crash would not be survived")
	}
	t.prepare(g, &r)
	t.looks = true
	start := time.Now()
	ctx, cancel := context.WithDeadline(ctx, start.Add(min(r.DrainTimeout, maxObserved)))
	defer cancel()
	t.lock()
	t.attach()
	t.unlock()
	seen, err := g.observe(ctx, t)
	if t.queue != nil {
		t.queue.waited.Total = time.Since(start)
	}
	if err != nil {
		t.leave()
	} else if t.read {
		t.release()
	}
	return seen, err
}

// observe takes the steps of pass, and registers the write at the one at
// which Enter would refuse it or let it wait.
func (g *Gate) observe(ctx context.Context, t *Ticket) (Seen, error) {
	defer t.unqueue()
	var failed error // the store's
	for {
		t.lock()
		if g.stopping.Load() {
			t.unlock()
			return Seen{}, ErrStopping
		}
		v, c := t.decide()
		seen := Seen{Refusal: failed, Waits: v == drain}
		if seen.Refusal == nil && v != load {
			if seen.Refusal = t.implausible(); seen.Refusal == nil {
				seen.Refusal = t.refusal(v, c)
			}
		}
		if seen.Refusal != nil || v <= drain {
			if seen.Refusal != nil && failed == nil && t.needsEntry() {
				t.unlock()
				g.enterUnordered(ctx, t)
				t.lock()
			}
			if g.stopping.Load() {
				t.unlock()
				return Seen{}, ErrStopping
			}
			t.registerLooked(seen)
			t.unlock()
			return seen, nil
		}
		if t.queue == nil && v != load {
			t.enqueue() // without a limit: it waits for nothing but the disk
		}
		err := g.record(ctx, t, v, c)
		if err == nil && t.queue != nil {
			err = t.queue.failed()
		}
		switch {
		case errors.Is(err, ErrLeft), errors.Is(err, ErrStopping):
			return Seen{}, err
		default:
			failed = err
		}
	}
}

// registerLooked registers a write as what it was seen to be. The locks are
// held.
func (t *Ticket) registerLooked(seen Seen) {
	for i := range t.claims {
		// Its token may be lower than the highest, or another holder's.
		t.claims[i].Unordered = t.claims[i].Unordered || seen.Refusal != nil
	}
	t.dequeue()
	t.register()
}
