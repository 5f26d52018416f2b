// Package lease hands out leases, each with a fencing token, and is the API
// that they are asked for with. Where lease and fence are one box, a grant can
// promise what no lock service can: when it is told, every older write on the
// key is over, and none can land any more.
//
// What is decided is in state.go, pure. A grant is in the store, durably, before
// it is told, and it never overlaps the one before: that was released, or ran
// out by this issuer's clock, which goes on while the machine is suspended.
// What ended without a known result is looked at again before anything is said
// of it.
package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Options of an Issuer. Store, Clock, Owners and the TTLs must be set.
type Options struct {
	Store tokenstore.Leaser
	// Clock counts from any moment and never stops while the machine is
	// suspended, or a lease would outlive its time.
	Clock func() time.Duration
	// Owners are the rules that can make a key.
	Owners func(tokenstore.Key) []Owner
	// DefaultTTL is what a lease lives that is asked for without; MaxTTL the
	// longest that may be asked for.
	DefaultTTL, MaxTTL time.Duration
	// MaxWaiting is how many may wait in all, MaxWaitingPerKey how many for one
	// key; 0 or less stands for no limit.
	MaxWaiting, MaxWaitingPerKey int
	// MaxHeld is how many keys may be held, or being asked for; 0 or less stands
	// for no limit. Those that are held stay held, and can be waited for.
	MaxHeld int
	// StoreTimeout is how long one call of the store may take: 5s.
	StoreTimeout time.Duration
	Metrics      *Metrics    // nil counts nothing
	Audit        func(Event) // in line: a grant is told once it returns; nil tells nobody
	Log          *zap.Logger // nil drops the lines
}

// MinTTL is the shortest time that a lease may be asked for.
const MinTTL = 100 * time.Millisecond

const (
	storeTimeout = 5 * time.Second
	// tries is how often a decision is taken anew because others changed the
	// lease meanwhile.
	tries = 8
)

// Issuer grants leases. Its methods may be called by any number of goroutines.
type Issuer struct {
	o      Options
	store  tokenstore.Leaser
	shared bool // others change the store, too

	mu       sync.Mutex // guards what follows; no call is made under it
	entries  map[tokenstore.Key]*entry
	waiting  int // in all queues
	agenda   agenda
	stopping bool
	closed   bool

	stop chan struct{} // closed when nothing is granted any more
	end  chan struct{} // closed when all is over
	kick chan struct{} // capacity 1: the agenda begins earlier
	dead chan *entry   // leases to take out of the store; each has a reference
	done sync.WaitGroup
}

// New returns an issuer that knows every lease in the store. Each lives its
// full TTL from now: nobody can tell when it was renewed last.
func New(ctx context.Context, o Options) (*Issuer, error) {
	switch {
	case o.Store == nil || o.Clock == nil || o.Owners == nil:
		return nil, errors.New("lease: the store, the clock and the owners must be set")
	case o.DefaultTTL < MinTTL || o.MaxTTL < o.DefaultTTL:
		return nil, errors.New("lease: the default TTL must be 100ms or more, and the longest no less than it")
	}
	if o.StoreTimeout <= 0 {
		o.StoreTimeout = storeTimeout
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Audit == nil {
		o.Audit = func(Event) {}
	}
	if o.Metrics == nil {
		o.Metrics = newMetrics()
	}
	i := &Issuer{o: o, store: o.Store, shared: o.Store.LeaseChanges() != nil,
		entries: map[tokenstore.Key]*entry{},
		stop:    make(chan struct{}), end: make(chan struct{}), kick: make(chan struct{}, 1), dead: make(chan *entry, 256)}
	if err := i.load(ctx); err != nil {
		return nil, err
	}
	i.done.Go(i.follow)
	for range cleaners {
		i.done.Go(i.clean)
	}
	o.Metrics.observe(i)
	return i, nil
}

// load takes over the leases of the store that are not known yet.
func (i *Issuer) load(ctx context.Context) error {
	return i.store.Leases(ctx, func(key tokenstore.Key, l tokenstore.Lease) bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		if e := i.entries[key]; e != nil {
			return true
		}
		e := i.hold(key)
		e.saw(l, i.o.Clock())
		i.drop(e)
		return true
	})
}

// Stop ends the granting: who waits gets ErrStopping. What is held stays held,
// and is renewed and released as before. It may be called more than once.
func (i *Issuer) Stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.stopping {
		i.stopping = true
		close(i.stop)
	}
}

// Close ends everything, and waits until no call of the store is on its way.
// The leases stay in the store. It may be called more than once.
func (i *Issuer) Close() {
	i.Stop()
	i.mu.Lock()
	if !i.closed {
		i.closed = true
		close(i.end)
	}
	i.mu.Unlock()
	i.done.Wait()
}

// begin counts a call in that Close has to wait for; with granting, one that
// Stop refuses.
func (i *Issuer) begin(granting bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed || granting && i.stopping {
		return ErrStopping
	}
	i.done.Add(1)
	return nil
}

// call is the context of one call of the store that changes something: it is
// not cut off by a client that leaves, which would make its result unknown.
func (i *Issuer) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), i.o.StoreTimeout)
}

// Counts are the leases and who waits for one.
type Counts struct{ Held, Waiting int }

// Counts tells how many leases are held, as far as this issuer knows, and how
// many clients wait for one.
func (i *Issuer) Counts() Counts {
	i.mu.Lock()
	defer i.mu.Unlock()
	c, now := Counts{Waiting: i.waiting}, i.o.Clock()
	for _, e := range i.entries {
		if e.held(now) {
			c.Held++
		}
	}
	return c
}
