package lease

import (
	"context"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// handOver leaves a lease that its holder gives back to whoever waits first
// here: his own takes its place in the store in one step, which is one write
// less on the way from one to the other. (Who waits at another proxy has yet to
// hear of it, and would come later in any case.) It reports whether that came to
// be, or whether the lease is still to be ended. The turn is held, and lent
// meanwhile; tell is called before: a release is told of before the grant that
// follows it.
func (i *Issuer) handOver(ctx context.Context, e *entry, tell func()) (gone bool, err error) {
	i.mu.Lock()
	if len(e.queue) == 0 {
		i.mu.Unlock()
		return false, nil
	}
	was, tried := e.lease, make(chan struct{})
	e.hasTried() // of a lease that this one has replaced: nobody can take that any more
	e.offer(i.o.Clock())
	e.tried = tried
	e.wake()
	i.mu.Unlock()
	tell()
	e.give()
	<-tried
	// Whoever was woken has tried, or has left and nobody is behind him: what he
	// does is bounded, and is not cut off by a client that leaves.
	_ = e.take(context.WithoutCancel(ctx))
	if i.replaced(e, was) {
		return true, nil
	}
	err = i.freshen(ctx, e, false)
	return err == nil && i.replaced(e, was), err
}

// replaced reports whether another lease, or none, is known to stand there.
func (i *Issuer) replaced(e *entry, was tokenstore.Lease) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return e.lease.ID != was.ID
}

// hasTried lets the holder go on who has offered a lease. The lock is held.
func (e *entry) hasTried() {
	if e.tried != nil {
		close(e.tried)
		e.tried = nil
	}
}

// hasTried is entry.hasTried without the lock.
func (i *Issuer) hasTried(e *entry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e.hasTried()
}
