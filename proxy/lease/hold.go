package lease

import (
	"context"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Renew lets the lease of that ID live its whole TTL from now; ttl, unless
// 0, becomes its new one. Behind its end it is lost, though nobody has taken it. A
// store of one proxy is told only of a new TTL: at the next start every lease
// begins anew.
func (i *Issuer) Renew(ctx context.Context, key tokenstore.Key, id string, ttl time.Duration) (Held, error) {
	if ttl != 0 {
		if err := i.checkTTL(ttl); err != nil {
			return Held{}, err
		}
	}
	if err := i.begin(false); err != nil {
		return Held{}, err
	}
	defer i.done.Done()
	if h, known, err := i.renewHere(key, id, ttl); known {
		return h, err
	}
	var h Held
	err := i.change(ctx, key, id, func(e *entry, was tokenstore.Lease) error {
		next := was.TTL
		if ttl > 0 {
			next = ttl
		}
		if err := i.renewLease(ctx, e, was, next); err != nil {
			return err
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.schedule(e)
		if h = e.told(i.o.Clock()); h.Left < leastLeft {
			return errTooSlow
		}
		return nil
	})
	return h, err
}

// renewHere renews where the store need not be told; known is false where it
// must be.
func (i *Issuer) renewHere(key tokenstore.Key, id string, ttl time.Duration) (h Held, known bool, err error) {
	if i.shared {
		return h, false, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	e, now := i.entries[key], i.o.Clock()
	switch {
	case e == nil:
		return h, true, ErrLost
	case e.unsure:
		return h, false, nil
	case !e.owns(id, now):
		return h, true, ErrLost
	case ttl > 0 && ttl != e.lease.TTL:
		return h, false, nil
	}
	e.extend(now)
	return e.told(now), true, nil
}

// Release ends the lease of that ID. After an error that wraps
// tokenstore.ErrUnavailable it counts no more either, here; another proxy lets
// it run out.
func (i *Issuer) Release(ctx context.Context, key tokenstore.Key, id string) error {
	if err := i.begin(false); err != nil {
		return err
	}
	defer i.done.Done()
	told := false
	return i.change(ctx, key, id, func(e *entry, was tokenstore.Lease) error {
		tell := func() {
			if !told {
				told = true
				i.tell(EventReleased, key, was)
			}
		}
		gone, err := i.handOver(ctx, e, tell)
		if err == nil && !gone {
			if err = i.endLease(ctx, e, was); err == nil {
				tell()
			}
		}
		if err != nil && !changed(err) {
			i.mu.Lock()
			defer i.mu.Unlock()
			e.giveUp(was, i.o.Clock())
			e.wake()
		}
		return err
	})
}

// change has do change the lease of that ID, and asks it again where the store
// had something else than was known, if that is still its holder's.
func (i *Issuer) change(ctx context.Context, key tokenstore.Key, id string, do func(*entry, tokenstore.Lease) error) error {
	e, seen, err := i.look(ctx, key)
	switch {
	case err != nil:
		return err
	case e == nil && (id == "" || seen.ID != id):
		return ErrLost
	case e == nil:
		e = i.find(key)
	}
	defer i.release(e)
	if err := e.take(ctx); err != nil {
		return err
	}
	defer e.give()
	for n := range tries {
		_, here := i.owned(e, id)
		if err := i.freshen(ctx, e, i.shared && !here && n == 0); err != nil {
			return err
		}
		was, ok := i.owned(e, id)
		if !ok {
			return ErrLost
		}
		if err := do(e, was); !changed(err) {
			return err
		}
	}
	return ErrRaced
}

// look returns the entry of a key that somebody here holds, uses or waits for,
// with a reference; where there is none, what stands in the store. An entry for
// whatever is asked about would take a place under MaxHeld from those who want to
// hold something, and keys are of the clients' choosing.
func (i *Issuer) look(ctx context.Context, key tokenstore.Key) (e *entry, seen tokenstore.Lease, err error) {
	i.mu.Lock()
	if i.entries[key] != nil {
		e = i.hold(key)
	}
	i.mu.Unlock()
	if e != nil || !i.shared { // what only this issuer changes it knows of
		return e, seen, nil
	}
	ctx, cancel := i.call(ctx)
	defer cancel()
	seen, err = i.store.Lease(ctx, key)
	return nil, seen, err
}

// owned is the lease of e where it is held and has that ID.
func (i *Issuer) owned(e *entry, id string) (tokenstore.Lease, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return e.lease, e.owns(id, i.o.Clock())
}

// Status is what anybody may know of a lease: all but its ID.
type Status struct {
	Held
	Waiting int // at this proxy
}

// Status tells who holds the lease of a key; ErrFree says that nobody does.
func (i *Issuer) Status(ctx context.Context, key tokenstore.Key) (Status, error) {
	if err := i.begin(false); err != nil {
		return Status{}, err
	}
	defer i.done.Done()
	e, seen, err := i.look(ctx, key)
	switch {
	case err != nil:
		return Status{}, err
	case e == nil && !seen.Held():
		return Status{}, ErrFree
	case e == nil:
		e = i.find(key)
	}
	defer i.release(e)
	if err := e.take(ctx); err != nil {
		return Status{}, err
	}
	defer e.give()
	if err := i.freshen(ctx, e, i.shared && !i.isPinned(e)); err != nil {
		return Status{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.o.Clock()
	if !e.held(now) {
		return Status{Waiting: len(e.queue)}, ErrFree
	}
	st := Status{Held{e.lease, e.left(now)}, len(e.queue)}
	st.ID = ""
	return st, nil
}

func (i *Issuer) isPinned(e *entry) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return e.pinned
}
