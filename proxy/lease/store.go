package lease

import (
	"context"
	"errors"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// The calls of the store, each with its result noted. Whoever makes one has the
// turn of the entry.

// freshen looks at the store where what is known may be out of date: after a
// call whose result is not known, or where it is asked for.
func (i *Issuer) freshen(ctx context.Context, e *entry, ask bool) error {
	i.mu.Lock()
	ask = ask || e.unsure
	i.mu.Unlock()
	if !ask {
		return nil
	}
	ctx, cancel := i.call(ctx)
	defer cancel()
	l, err := i.store.Lease(ctx, e.key)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	e.saw(l, i.o.Clock())
	return nil
}

// differs notes what stands in the store where that is what err tells, or else
// that nobody knows.
func (i *Issuer) differs(e *entry, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var other *tokenstore.LeaseError
	if errors.As(err, &other) {
		e.saw(other.Current, i.o.Clock())
		return
	}
	e.unsure = true
}

// changed reports whether err says that the lease is another than was believed,
// so that the decision is to be taken anew.
func changed(err error) bool {
	var other *tokenstore.LeaseError
	return errors.As(err, &other)
}

// grantLease puts a lease for a in the place of was, which is nobody's any more,
// and pins it. A result that is not known is looked up by the ID, once; where
// that does not help the lease may still come late, and counts for nothing then.
func (i *Issuer) grantLease(ctx context.Context, a *asking, was tokenstore.Lease) error {
	e, next, from := a.e, a.next(), i.o.Clock()
	calling, cancel := i.call(ctx)
	got, err := i.store.GrantLease(calling, e.key, was, next, a.owner.Epoch)
	cancel()
	if errors.Is(err, tokenstore.ErrUnavailable) {
		looking, cancel := i.call(ctx)
		l, lookErr := i.store.Lease(looking, e.key)
		cancel()
		if lookErr == nil && l.ID == next.ID {
			got, err = l, nil
		}
	}
	var other *tokenstore.LeaseError
	if errors.As(err, &other) && other.Current.ID == next.ID { // the store has tried twice
		got, err = other.Current, nil
	}
	var used *tokenstore.TokensUsedUpError
	switch {
	case err == nil:
		i.mu.Lock()
		defer i.mu.Unlock()
		a.id = got.ID
		e.granted(got, from, i.o.Clock())
	case errors.As(err, &used): // nothing was changed
	default:
		i.differs(e, err)
		if !changed(err) {
			i.mu.Lock()
			defer i.mu.Unlock()
			e.giveUp(next, i.o.Clock())
		}
	}
	return err
}

// renewLease counts one Beat of was in the store.
func (i *Issuer) renewLease(ctx context.Context, e *entry, was tokenstore.Lease, ttl time.Duration) error {
	ctx, cancel := i.call(ctx)
	defer cancel()
	from := i.o.Clock()
	got, err := i.store.RenewLease(ctx, e.key, was, ttl)
	if err != nil {
		i.differs(e, err)
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	e.renewed(got, from, i.o.Clock())
	return nil
}

// endLease takes was out of the store.
func (i *Issuer) endLease(ctx context.Context, e *entry, was tokenstore.Lease) error {
	ctx, cancel := i.call(ctx)
	defer cancel()
	err := i.store.EndLease(ctx, e.key, was)
	if err == nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		e.ended()
		e.wake()
		return nil
	}
	i.differs(e, err)
	return err
}
