package lease

import (
	"context"
	"errors"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// leastLeft is the least that a holder is told to have: its time is told in
// milliseconds. Of less nothing is told: a store was slower than the lease lives.
const leastLeft = time.Millisecond

var errTooSlow = tokenstore.Unavailable(errors.New("the store took longer than the lease lives: ask for a longer ttl, or look for what keeps the store"))

// secure makes of the lease that is pinned for a one that may be told: raised
// and drained, where that is wanted, and with its time before it.
func (i *Issuer) secure(ctx context.Context, a *asking) (Held, error) {
	for range tries {
		err := i.fence(ctx, a)
		changed, gone := i.renewOwner(a)
		stale := (*gate.StaleError)(nil)
		switch {
		case gone != nil:
			return Held{}, gone
		case errors.As(err, &stale), err == nil && changed:
			// Somebody raised a higher token, between the grant and here, or the
			// rule has a higher epoch since.
			if err := i.redraw(ctx, a); err != nil {
				return Held{}, err
			}
		case err != nil:
			return Held{}, err
		default:
			return i.unpin(ctx, a)
		}
	}
	return Held{}, ErrRaced
}

// fence raises and drains, and has the lease beat meanwhile where another issuer
// would take it for one that has run out.
func (i *Issuer) fence(ctx context.Context, a *asking) error {
	l, ok := i.pinned(a)
	if !ok {
		return i.heldBy(a.e)
	}
	if err := a.owner.plausible(a.Key, l.Token); err != nil || !a.Fence {
		return err
	}
	if i.shared {
		beating, stop := context.WithCancel(ctx)
		defer stop()
		i.done.Go(func() { // Acquire is counted: Close waits
			for sleep(beating, a.TTL/3) {
				_ = i.beat(beating, a) // the one that counts comes behind the drain
			}
		})
	}
	return a.owner.Fence(ctx, a.Key, l.Token)
}

// unpin lets the lease run from here on. Where the drain took its time, the other
// issuers are told first: they have counted from the grant.
func (i *Issuer) unpin(ctx context.Context, a *asking) (Held, error) {
	if i.shared && i.age(a) > a.TTL/10 {
		if err := i.beat(ctx, a); err != nil {
			return Held{}, err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.o.Clock()
	if ctx.Err() != nil {
		return Held{}, ErrLeft
	}
	if !a.e.pinned || a.e.lease.ID != a.id {
		return Held{}, a.e.heldBy(now)
	}
	if !i.shared {
		a.e.extend(now)
	}
	h := a.e.told(now)
	if h.Left < leastLeft {
		return Held{}, errTooSlow
	}
	a.e.pinned = false
	i.schedule(a.e)
	return h, nil
}

// age is how long ago the store was told of the lease.
func (i *Issuer) age(a *asking) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.o.Clock() - a.e.from
}

// beat tells the other issuers that the pinned lease is alive.
func (i *Issuer) beat(ctx context.Context, a *asking) error {
	if err := a.e.take(ctx); err != nil {
		return err
	}
	defer a.e.give()
	for range tries {
		l, ok := i.pinned(a)
		if !ok {
			return i.heldBy(a.e)
		}
		if err := i.renewLease(ctx, a.e, l, l.TTL); !changed(err) {
			return err
		}
	}
	return ErrRaced
}

// abandon ends a lease that nobody will ever hear of.
func (i *Issuer) abandon(a *asking) {
	ctx := context.Background()
	_ = a.e.take(ctx)
	defer a.e.give()
	// However it ends: whoever waits has seen the lease pinned, and nobody else
	// would tell him that it is not any more.
	defer i.wake(a.e)
	for range tries {
		l, ok := i.pinned(a)
		if !ok {
			return
		}
		if err := i.endLease(ctx, a.e, l); err == nil {
			return
		} else if !changed(err) {
			break // else a beat came later than it was waited for
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if a.e.pinned && a.e.lease.ID == a.id {
		a.e.giveUp(a.e.lease, i.o.Clock())
	}
}

// sleep is false once ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
