package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// mayWait makes sure that the ticket stands among the waiters of its keys,
// and tells whether it may go on. The locks are held. Before a ticket has its
// place it has raised nothing.
func (t *Ticket) mayWait() error {
	g := t.gate
	if g.stopping.Load() {
		return ErrStopping
	}
	if t.queue != nil {
		return t.queue.failed()
	}
	if limit := int(g.maxWaitingPerKey.Load()); limit > 0 {
		for i := range t.claims {
			// A higher token is let in: those who wait are stale as soon as it is
			// on the disk, and must not keep the new holder out until then.
			c := &t.claims[i]
			if !c.Unordered && len(c.entry.waiters)-c.entry.lookers >= limit && !(c.entry.hasHigh && c.entry.high.Less(c.Token)) {
				return ErrOverloaded
			}
		}
	}
	if limit := g.maxWaiting.Load(); limit > 0 && g.waiting.Load() >= limit {
		return ErrOverloaded
	}
	t.enqueue()
	return nil
}

// Wait counts one more among those that wait until done is called: for writes
// that the gate does not know of. Where as many wait as may, it is ErrOverloaded.
func (g *Gate) Wait() (done func(), err error) {
	n, limit := g.waiting.Add(1), g.maxWaiting.Load()
	done = sync.OnceFunc(func() { g.waiting.Add(-1) })
	if limit > 0 && n > limit {
		done()
		return nil, ErrOverloaded
	}
	return done, nil
}

// enqueue puts the ticket among the waiters of its keys. The locks are held.
func (t *Ticket) enqueue() {
	if !t.looks {
		t.gate.waiting.Add(1)
	}
	t.queue = &queue{woken: make(chan struct{}, 1)}
	for i := range t.claims {
		c := &t.claims[i]
		if c.Unordered {
			c.entry.placeless++
			continue
		}
		c.place = c.entry.placeOf(c.Token)
		c.entry.waiters = append(c.entry.waiters, c)
		if t.looks {
			c.entry.lookers++
		}
	}
}

// overtakes decides when the older writes are told that one with a token waits
// for them. A raise has told those with a lower token; an unordered one, and one
// that is only looked on, go on until then: a new holder tells them at once, and
// one that has been there, who may well wait for a write of his own side, after
// half of his patience, when grace ends. The locks are held.
func (t *Ticket) overtakes(ctx context.Context) (grace <-chan time.Time) {
	switch {
	case t.queue.overtook:
	case t.queue.waited.Raised || t.queue.grace != nil && !t.queue.grace.After(time.Now()):
		t.overtake()
	default:
		if t.queue.grace == nil {
			end, _ := ctx.Deadline()
			half := time.Now().Add(time.Until(end) / 2)
			t.queue.grace = &half
		}
		return time.After(time.Until(*t.queue.grace))
	}
	return nil
}

// overtake tells them. None comes behind: those that register later are not
// waited for.
func (t *Ticket) overtake() {
	t.queue.overtook = true
	for i := range t.claims {
		c := &t.claims[i]
		for o := c.entry.registered; o != nil && !c.Unordered; o = o.next {
			if c.waitsFor(o) {
				o.ticket.pass()
			}
		}
	}
}

// unqueue takes the ticket from the waiters again, if it is among them. The
// entries are held still: by the registration, or until leave.
func (t *Ticket) unqueue() {
	if t.queue == nil {
		return
	}
	t.lock()
	t.dequeue()
	t.unlock()
}

// dequeue is unqueue with the locks held; the second call does nothing.
func (t *Ticket) dequeue() {
	if t.queue == nil || t.queue.left {
		return
	}
	t.queue.left = true
	if !t.looks {
		t.gate.waiting.Add(-1)
	}
	for i := range t.claims {
		e, c := t.claims[i].entry, &t.claims[i]
		if at := slices.Index(e.waiters, c); at >= 0 {
			e.waiters = slices.Delete(e.waiters, at, at+1)
			if t.looks {
				e.lookers--
			}
		} else { // not by c: what is only looked on may have lost its token meanwhile
			e.placeless--
		}
	}
}

// await waits until one of the keys changes, grace ends, the client leaves or
// time is up.
func (t *Ticket) await(ctx context.Context, v verdict, c *claim, grace <-chan time.Time) error {
	select {
	case <-t.queue.woken:
		return nil
	case <-grace:
		return nil
	case <-t.gate.stop:
		return ErrStopping
	case <-t.Lost():
		return fmt.Errorf("%w: the session with it is over", tokenstore.ErrUnavailable) // R10
	case <-ctx.Done():
	}
	if left(ctx) {
		return ErrLeft
	}
	if v != drain {
		return fmt.Errorf("%w: a raise took longer than drain_timeout", tokenstore.ErrUnavailable)
	}
	t.lock()
	defer t.unlock()
	t.keepPlaces()
	return &DrainTimeoutError{Key: c.Key, RetryAfter: t.retryAfter(), Quarantined: t.gate.heldBy(c) != quarantineNone}
}

// keepPlaces keeps the ticket's places for its next attempt. The locks are
// held.
func (t *Ticket) keepPlaces() {
	for i := range t.claims {
		c := &t.claims[i]
		e := c.entry
		if c.Unordered || e.overtaken(c.Token) || e.kept != nil && e.keptFor == c.Token {
			continue
		}
		kept := c.place
		e.kept, e.keptFor = &kept, c.Token
	}
}

// retryAfter is the time until the last older write of all keys is settled,
// 0 where one is in flight. The locks are held.
func (t *Ticket) retryAfter() time.Duration {
	var last time.Time
	for i := range t.claims {
		c := &t.claims[i]
		if t.gate.heldBy(c) != quarantineNone && t.gate.quarantineEnd.After(last) {
			last = t.gate.quarantineEnd
		}
		for o := c.entry.registered; o != nil; o = o.next {
			switch {
			case !c.waitsFor(o):
			case o.ticket.phase == inFlight:
				return 0
			case o.ticket.lost.until.After(last):
				last = o.ticket.lost.until
			}
		}
	}
	return max(0, time.Until(last))
}
