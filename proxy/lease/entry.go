package lease

import (
	"context"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// entry is one key that somebody holds, waits for, or just asks about. All of
// it but turn is guarded by Issuer.mu.
type entry struct {
	state
	key   tokenstore.Key
	queue []*waiter     // in the order of their coming; the first one asks the store
	refs  int           // who uses it; without any it may leave the table
	due   time.Duration // when the agenda looks at it
	place int           // on the agenda, from 1; 0 where it is not

	// tried is closed when a lease that was offered was tried to be taken, or
	// nobody waits for it any more; nil where none is offered.
	tried chan struct{}

	// turn, of capacity 1, is held by whoever calls the store for this key, from
	// before the decision until its result is noted: else an old result could be
	// noted over a new one.
	turn chan struct{}
}

// waiter is one client in a queue.
type waiter struct {
	woken chan struct{} // capacity 1: it is the first, or something has changed
	extra bool          // there is no room to wait for it: it asks, once
}

// hold returns the entry of key, with a reference. The lock is held.
func (i *Issuer) hold(key tokenstore.Key) *entry {
	e := i.entries[key]
	if e == nil {
		e = &entry{key: key, state: state{sole: !i.shared}, turn: make(chan struct{}, 1)}
		i.entries[key] = e
	}
	e.refs++
	return e
}

// drop gives a reference back. What nobody holds or uses leaves the table; the
// rest is on the agenda. The lock is held.
func (i *Issuer) drop(e *entry) {
	e.refs--
	switch {
	case e.refs > 0 || e.pinned:
	case e.lease.Held() || e.unsure:
		i.schedule(e)
	default:
		delete(i.entries, e.key)
		i.unschedule(e)
	}
}

// release is drop without the lock.
func (i *Issuer) release(e *entry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.drop(e)
}

// find is hold without the lock.
func (i *Issuer) find(key tokenstore.Key) *entry {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hold(key)
}

// take waits for the turn at the store.
func (e *entry) take(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ErrLeft
	}
}

func (e *entry) give() { <-e.turn }

// enqueue puts a new waiter behind the others. One that does not want to wait
// finds out at once that there are others.
func (i *Issuer) enqueue(e *entry, waits bool) (*waiter, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	// Whoever asks for what nobody seems to hold is not kept out by those who wait
	// elsewhere, or they could stop every grant.
	free := len(e.queue) == 0 && !e.held(i.o.Clock())
	full := i.o.MaxWaiting > 0 && i.waiting >= i.o.MaxWaiting
	switch {
	case i.o.MaxHeld > 0 && len(i.entries) > i.o.MaxHeld && !e.lease.Held(): // e is among them
		return nil, ErrFull
	case !waits && len(e.queue) > 0:
		return nil, e.heldBy(i.o.Clock())
	case full && !free,
		i.o.MaxWaitingPerKey > 0 && len(e.queue) >= i.o.MaxWaitingPerKey:
		return nil, ErrOverloaded
	}
	w := &waiter{woken: make(chan struct{}, 1), extra: full}
	e.queue = append(e.queue, w)
	i.waiting++
	return w, nil
}

// dequeue forgets a waiter, and tells the next one that it is the first.
func (i *Issuer) dequeue(e *entry, w *waiter) {
	i.mu.Lock()
	defer i.mu.Unlock()
	at := slices.Index(e.queue, w)
	e.queue = slices.Delete(e.queue, at, at+1)
	i.waiting--
	if at == 0 {
		e.wake()
	}
	if len(e.queue) == 0 {
		e.hasTried()
	}
}

// first reports whether w is the one who asks the store.
func (i *Issuer) first(e *entry, w *waiter) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return e.queue[0] == w
}

// wake makes the first waiter look again. The lock is held.
func (e *entry) wake() {
	if len(e.queue) == 0 {
		return
	}
	select {
	case e.queue[0].woken <- struct{}{}:
	default: // it is told already
	}
}

// wake is entry.wake without the lock.
func (i *Issuer) wake(e *entry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e.wake()
}

// heldBy is what a client is told that does not get the lease. The lock is held.
func (e *entry) heldBy(now time.Duration) *HeldError {
	err := &HeldError{Key: e.key}
	if e.held(now) {
		err.Current, err.Left = e.lease, e.left(now)
	}
	return err
}
