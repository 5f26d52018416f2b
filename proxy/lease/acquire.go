package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Request asks for the lease of a key.
type Request struct {
	Key    tokenstore.Key
	Holder string        // for people
	TTL    time.Duration // 0 for the default
	// Wait is how long to wait for another holder; 0 does not wait. The drain
	// behind the grant is not in it.
	Wait time.Duration
	// Fence makes the grant raise its token and wait until every older write is
	// over.
	Fence bool
	Rule  string // that owns the key; "" where that is plain
}

// Held is a lease as its holder is told of it.
type Held struct {
	tokenstore.Lease
	Left time.Duration // to live, from when that was decided
}

// asking is a request on its way to a lease.
type asking struct {
	Request
	owner Owner
	e     *entry
	id    string // of the lease that is pinned for it
}

// Acquire waits for the lease. ctx is the client: when it ends, the waiter is
// forgotten, and a lease that it would not hear of is ended.
func (i *Issuer) Acquire(ctx context.Context, r Request) (Held, error) {
	if err := i.check(&r); err != nil {
		return Held{}, err
	}
	owner, err := i.owner(r.Key, r.Rule, r.Fence)
	if err != nil {
		return Held{}, err
	}
	if err := i.begin(true); err != nil {
		return Held{}, err
	}
	defer i.done.Done()
	a := &asking{Request: r, owner: owner, e: i.find(r.Key)}
	defer i.release(a.e)
	since := i.o.Clock()
	if err := i.queueFor(ctx, a); err != nil {
		return Held{}, err
	}
	i.o.Metrics.waited(i.o.Clock() - since)
	ready := false
	defer func() { // also behind a panic: pinned, it would be nobody's for ever
		if !ready {
			i.abandon(a)
		}
	}()
	h, err := i.secure(ctx, a)
	if err != nil {
		return Held{}, err
	}
	ready = true
	i.tell(EventGranted, r.Key, h.Lease)
	return h, nil
}

// queueFor waits until a lease is pinned for a. The first in the queue asks the
// store; with the lease he leaves the queue, and the drain is no matter of it.
func (i *Issuer) queueFor(ctx context.Context, a *asking) error {
	w, err := i.enqueue(a.e, a.Wait > 0)
	if err != nil {
		return err
	}
	defer i.dequeue(a.e, w)
	timer := time.NewTimer(a.Wait)
	defer timer.Stop()
	for {
		if i.first(a.e, w) {
			err := i.draw(ctx, a)
			i.hasTried(a.e)
			if held := (*HeldError)(nil); !errors.As(err, &held) || a.Wait == 0 || w.extra {
				return err
			}
		}
		select {
		case <-w.woken:
		case <-timer.C:
			return i.heldBy(a.e)
		case <-ctx.Done():
			return ErrLeft
		case <-i.stop:
			return ErrStopping
		}
	}
}

// draw grants the lease where nobody holds it, with a new token, and pins it for
// a. Else it is a *HeldError.
func (i *Issuer) draw(ctx context.Context, a *asking) error {
	e := a.e
	if err := e.take(ctx); err != nil {
		return err
	}
	defer e.give()
	for range tries {
		if err := i.freshen(ctx, e, i.mayBeFree(e)); err != nil {
			return err
		}
		i.mu.Lock()
		if now := i.o.Clock(); e.held(now) {
			err := e.heldBy(now)
			if !e.pinned {
				i.schedule(e) // whoever waits is woken then
			}
			i.mu.Unlock()
			return err
		}
		was, lost := e.lease, e.wasLost()
		i.mu.Unlock()
		if _, err := i.renewOwner(a); err != nil {
			return err
		}
		err := i.grantLease(ctx, a, was)
		if err == nil && lost {
			i.tell(EventLost, e.key, was)
		}
		if !changed(err) {
			return err
		}
	}
	return ErrRaced
}

// mayBeFree reports whether the lease is held only as far as is known here.
func (i *Issuer) mayBeFree(e *entry) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.shared && !e.pinned && e.held(i.o.Clock())
}

// redraw puts a higher token in the place of the pinned lease's, which somebody
// has overtaken.
func (i *Issuer) redraw(ctx context.Context, a *asking) error {
	if err := a.e.take(ctx); err != nil {
		return err
	}
	defer a.e.give()
	for range tries {
		was, ok := i.pinned(a)
		if !ok {
			return i.heldBy(a.e)
		}
		if err := i.grantLease(ctx, a, was); !changed(err) {
			return err
		}
	}
	return ErrRaced
}

// next is the lease that a asks for, with an ID that nobody can guess.
func (a *asking) next() tokenstore.Lease {
	return tokenstore.Lease{ID: rand.Text(), Holder: a.Holder, TTL: a.TTL, GrantedAt: time.Now()}
}

// pinned is the lease that is pinned for a; ok is false where another issuer has
// taken it, having heard nothing of it for its TTL.
func (i *Issuer) pinned(a *asking) (l tokenstore.Lease, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return a.e.lease, a.e.pinned && a.e.lease.ID == a.id
}

// heldBy is what a waiter is told whose time is over.
func (i *Issuer) heldBy(e *entry) *HeldError {
	i.mu.Lock()
	defer i.mu.Unlock()
	return e.heldBy(i.o.Clock())
}
