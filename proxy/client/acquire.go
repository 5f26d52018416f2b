package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// LeaseOptions say what lease is wanted, and from whom.
type LeaseOptions struct {
	// Servers are the URLs of lease listeners (leases.address), like
	// http://127.0.0.1:9902. They are tried in order: they must share a store.
	Servers []string
	// Holder is told to those who find the lease taken. Empty: this host and
	// process.
	Holder string
	// TTL is how long the lease lives without renewal; 0 for the server's default.
	TTL time.Duration
	// Wait is how long to wait for another holder; 0 does not wait. A server
	// that cannot be reached is tried again for as long, at most 10 s in a row.
	Wait time.Duration
	// NoFence has the lease granted at once. Otherwise it is granted only when
	// no older write on the key can land any more.
	NoFence bool
	// Rule owns the key, where the rules that can make it differ in epoch.
	Rule string
	// Bearer returns the token for a server that has a token_file; it is asked
	// for every request. Nil where there is none.
	Bearer func() (string, error)
	// HTTPClient reaches the servers; nil for one that goes there directly. Its
	// timeout must not be shorter than Wait, and it must have room for a second
	// request to a server beside one that waits (Transport.MaxConnsPerHost).
	HTTPClient *http.Client
	// Report is told of every attempt that failed and is made again: nil for
	// nobody. It must not block: the next attempt waits for it.
	Report func(error)

	clock func() time.Duration // boottime
}

const (
	// patience is how long servers are tried that do not answer: about a restart.
	// One that takes a request and answers nothing at all is given up after it.
	patience = 10 * time.Second
	// drainPatience is how long a grant may take beside the wait, by a server that
	// answers other requests: the drain is bounded by its drain_timeout.
	drainPatience = 5 * time.Minute
	// retryPause is the time from one attempt to the next.
	retryPause = 250 * time.Millisecond
)

// Acquire returns the lease of a resource key once it is granted, and renews it
// until Release. Its error is a *HeldError when somebody else still held it at
// the end of Wait, ErrUnreachable, a *ServerError, or the cause of ctx.
//
// ctx is also the parent of Lease.Context, the context to do the work in: bound
// the waiting by LeaseOptions.Wait.
func Acquire(ctx context.Context, key string, o LeaseOptions) (*Lease, error) {
	i, err := newIssuer(&o)
	if err != nil {
		return nil, fmt.Errorf("lease of %s: %w", key, err)
	}
	if key == "" {
		return nil, errors.New("a lease needs a resource key")
	}
	until := i.clock() + o.Wait
	left := func() time.Duration { return max(0, until-i.clock()) }
	ask := wire.LeaseRequest{Holder: o.Holder, TTL: wire.Duration(o.TTL), Rule: o.Rule}
	if o.Holder == "" {
		ask.Holder = defaultHolder()
	}
	if o.NoFence {
		ask.Fence = new(bool)
	}
	what := func() wire.LeaseRequest {
		ask.Wait = wire.Duration(left())
		return ask
	}
	for failing := i.clock(); ; {
		asked := i.clock()
		granted, sent, err := i.grant(ctx, key, what, func() time.Duration { return left() + drainPatience })
		if err == nil {
			return newLease(ctx, i, granted, sent, o.Report), nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("lease of %s: %w", key, context.Cause(ctx))
		}
		now := i.clock()
		if now-asked > time.Second && !errors.Is(err, errSilent) { // it was reached, and waited: this is a new failure
			failing = now
		}
		if !again(err) && !errors.Is(err, ErrLost) || left() == 0 || now-failing >= patience {
			return nil, fmt.Errorf("lease of %s: %w", key, err)
		}
		if o.Report != nil {
			o.Report(err)
		}
		if !pause(ctx, min(left(), jitter(retryPause))) {
			return nil, fmt.Errorf("lease of %s: %w", key, context.Cause(ctx))
		}
	}
}

// defaultHolder names this process for people.
func defaultHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// pause waits for d; false says that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// jitter spreads d by a tenth, so that many holders do not come at once.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}
