package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// Lease is a resource key held, and renewed in the background until Release.
// It is safe for concurrent use.
type Lease struct {
	key, id, token string

	issuer *issuer
	report func(error)
	ctx    context.Context // the work's
	cancel context.CancelCauseFunc
	held   context.Context // ends with the lease alone: the work may still be cleaning up
	lose   context.CancelCauseFunc
	keeper sync.WaitGroup // what renews and watches

	mu    sync.Mutex
	ttl   time.Duration // as the server last granted it
	until time.Duration // by the clock; nothing may be done under the lease from then on
	err   error         // why it is over

	release  sync.Mutex
	ended    bool // the server knows of the release
	unsure   bool // a DELETE was sent and not answered
	released error
}

func newLease(ctx context.Context, i *issuer, granted wire.Lease, sent time.Duration, report func(error)) *Lease {
	if report == nil {
		report = func(error) {}
	}
	l := &Lease{key: granted.Key, id: granted.ID, token: granted.Token, issuer: i, report: report}
	l.ttl = time.Duration(granted.ExpiresIn)
	l.until = sent + l.ttl
	l.ctx, l.cancel = context.WithCancelCause(withSource(ctx, l))
	l.held, l.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	tick := max(time.Millisecond, min(longestTick, l.ttl/20)) // here: a renewal, which changes it, may come before the watch runs
	l.keeper.Go(l.keep)
	l.keeper.Go(func() { l.watch(tick) })
	return l
}

// Key is the resource key.
func (l *Lease) Key() string { return l.key }

// Token is the fencing token to send with every write, in decimal.
func (l *Lease) Token() string { return l.token }

// Context is what to do the work in. It carries the token for Transport, and
// ends with the context that Acquire got, when the lease is lost, or with
// Release: context.Cause tells which (ErrLost, ErrReleased).
func (l *Lease) Context() context.Context { return l.ctx }

// Err is nil while the lease is held: else ErrLost or ErrReleased, with the
// reason. It looks at the clock, and so knows of a suspended machine or a
// stopped process before Context does.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && l.issuer.clock() >= l.until {
		l.endLocked(fmt.Errorf("%w: it was not renewed within %v", ErrLost, l.ttl))
	}
	return l.err
}

// Remaining is how long the lease lives if it is not renewed any more; 0 when
// it is over.
func (l *Lease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.until-l.issuer.clock())
}

// end says why the lease is over; the first reason stays.
func (l *Lease) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.endLocked(why)
	}
}

func (l *Lease) endLocked(why error) {
	l.err = why
	l.lose(why)
	l.cancel(why)
}

// Release gives the lease back, so that the next holder need not wait for its
// end. Context ends before the server is told: stop the work first. It is tried
// until ctx ends, at most for as long as the lease would live; an error that is
// ErrLost says that it was over before, and that the work may have been done
// beside another holder's.
func (l *Lease) Release(ctx context.Context) error {
	if err := l.Err(); err == nil {
		l.end(ErrReleased)
	} else if !errors.Is(err, ErrReleased) {
		l.keeper.Wait()
		return err
	}
	// No renewal may be on its way behind the DELETE.
	l.keeper.Wait()
	l.release.Lock()
	defer l.release.Unlock()
	if !l.ended {
		l.released = l.give(ctx)
	}
	return l.released
}

// give sends the DELETE until it is answered.
func (l *Lease) give(ctx context.Context) error {
	what := func() wire.LeaseRequest { return wire.LeaseRequest{ID: l.id} }
	left := func() time.Duration { return max(0, l.until-l.issuer.clock()) }
	for {
		_, _, err := l.issuer.round(ctx, http.MethodDelete, l.key, what, func() time.Duration { return max(left()/2, shortest) })
		switch {
		case err == nil, errors.Is(err, ErrLost) && l.unsure: // gone by the DELETE before
			l.ended = true
			return nil
		case errors.Is(err, ErrLost):
			l.ended = true
			return fmt.Errorf("releasing the lease of %s: %w", l.key, err)
		case !again(err), left() == 0, !pause(ctx, jitter(retryPause)):
			return fmt.Errorf("releasing the lease of %s: %w; it runs out by itself", l.key, err)
		}
		l.unsure = l.unsure || maybeSent(err)
		l.report(err)
	}
}
