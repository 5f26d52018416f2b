package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
)

const key = tokenstore.Key("account:42")

// table is a store that a test may have several proxies share, and that fails
// where it is told to.
type table struct {
	*memory.Store
	shared bool

	mu            sync.Mutex              // guards what follows
	before, after func(call string) error // it has had its effect; an error is its result
}

// fail sets what fails from here on; nil is nothing.
func (s *table) fail(before, after func(call string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// fails asks one of the two. A call is counted by it once.
func (s *table) fails(which *func(string) error, call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *which == nil {
		return nil
	}
	return (*which)(call)
}

// seat is a table as one of its proxies has it.
type seat struct {
	*table
	changes chan tokenstore.Key // nil for a store of one proxy
}

func (s *table) seat() seat {
	if !s.shared {
		return seat{s, nil}
	}
	return seat{s, make(chan tokenstore.Key, 10)}
}

func (s seat) LeaseChanges() <-chan tokenstore.Key { return s.changes }

func (s *table) around(call string, do func() error) error {
	if err := s.fails(&s.before, call); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return s.fails(&s.after, call)
}

func (s *table) Lease(ctx context.Context, k tokenstore.Key) (l tokenstore.Lease, err error) {
	err = s.around("look", func() error { l, err = s.Store.Lease(ctx, k); return err })
	return l, err
}

func (s *table) GrantLease(ctx context.Context, k tokenstore.Key, was, next tokenstore.Lease, epoch uint64) (l tokenstore.Lease, err error) {
	err = s.around("grant", func() error { l, err = s.Store.GrantLease(ctx, k, was, next, epoch); return err })
	return l, err
}

func (s *table) RenewLease(ctx context.Context, k tokenstore.Key, was tokenstore.Lease, ttl time.Duration) (l tokenstore.Lease, err error) {
	err = s.around("renew", func() error { l, err = s.Store.RenewLease(ctx, k, was, ttl); return err })
	return l, err
}

func (s *table) EndLease(ctx context.Context, k tokenstore.Key, was tokenstore.Lease) error {
	return s.around("end", func() error { return s.Store.EndLease(ctx, k, was) })
}

// errGone is a store that does not answer.
var errGone = tokenstore.Unavailable(errors.New("the line is cut"))

// once fails the first call of that name.
func once(name string) func(string) error {
	done := false
	return func(call string) error {
		if call != name || done {
			return nil
		}
		done = true
		return errGone
	}
}

// rig is an issuer in virtual time.
type rig struct {
	*testing.T
	store  *table
	seats  []seat
	issuer *Issuer
	owners []Owner
	owner  func() []Owner // where it is set, asked instead

	mu     sync.Mutex // guards what follows
	fenced func(context.Context, tokenstore.Token) error
	events []Event
}

// drains says what the fence does from here on; nil is over at once.
func (r *rig) drains(do func(context.Context, tokenstore.Token) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fenced = do
}

var start = time.Now()

// clock counts virtual time in a bubble.
func clock() time.Duration { return time.Since(start) }

// inBubble runs a test with an issuer of a store of one proxy.
func inBubble(t *testing.T, test func(*rig)) { bubble(t, &table{Store: memory.New()}, test) }

// inShared does so with one that others may share.
func inShared(t *testing.T, test func(*rig)) {
	bubble(t, &table{Store: memory.New(), shared: true}, test)
}

func bubble(t *testing.T, store *table, test func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, store: store}
		r.owners = []Owner{{Rule: "accounts", Fence: r.fence}}
		r.issuer = r.open(Options{})
		test(r)
		r.issuer.Close()
	})
}

func (r *rig) fence(ctx context.Context, _ tokenstore.Key, token tokenstore.Token) error {
	r.mu.Lock()
	do := r.fenced
	r.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(ctx, token)
}

// open makes one more issuer over the same store.
func (r *rig) open(o Options) *Issuer {
	r.Helper()
	if o.Store == nil {
		r.seats = append(r.seats, r.store.seat())
		o.Store = r.seats[len(r.seats)-1]
	}
	o.Clock, o.DefaultTTL, o.MaxTTL = clock, 10*time.Second, time.Hour
	o.Owners = func(k tokenstore.Key) []Owner {
		if k != key {
			return nil
		}
		if r.owner != nil {
			return r.owner()
		}
		return r.owners
	}
	o.Audit = func(e Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}
	i, err := New(r.Context(), o)
	if err != nil {
		r.Fatal(err)
	}
	return i
}

// hint tells every issuer that a lease may have changed.
func (r *rig) hint(k tokenstore.Key) {
	for _, s := range r.seats {
		s.changes <- k
	}
}

// got is how an Acquire ended.
type got struct {
	Held
	err error
	at  time.Duration
}

// ask asks for the lease in the background.
func (r *rig) ask(ctx context.Context, i *Issuer, holder string, wait time.Duration) <-chan got {
	ch := make(chan got, 1)
	go func() {
		h, err := i.Acquire(ctx, Request{Key: key, Holder: holder, Wait: wait, Fence: true})
		ch <- got{h, err, clock()}
	}()
	synctest.Wait() // it stands in the queue
	return ch
}

// acquire wants the lease at once.
func (r *rig) acquire(i *Issuer, holder string) Held {
	r.Helper()
	h, err := i.Acquire(r.Context(), Request{Key: key, Holder: holder, Fence: true})
	if err != nil {
		r.Fatalf("%s: %v", holder, err)
	}
	return h
}

// isHeld wants the lease to be another's.
func (r *rig) isHeld(i *Issuer, by string) {
	r.Helper()
	_, err := i.Acquire(r.Context(), Request{Key: key, Holder: "a nosy one", Fence: true})
	var held *HeldError
	if !errors.As(err, &held) || held.Current.Holder != by {
		r.Fatalf("%v, want it held by %s", err, by)
	}
}

func (r *rig) renew(i *Issuer, h Held) Held {
	r.Helper()
	h, err := i.Renew(r.Context(), key, h.ID, 0)
	if err != nil {
		r.Fatal(err)
	}
	return h
}

func (r *rig) want(err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Fatalf("%v, want %v", err, want)
	}
}

// stored is what stands in the store.
func (r *rig) stored() tokenstore.Lease {
	r.Helper()
	l, err := r.store.Store.Lease(r.Context(), key)
	if err != nil {
		r.Fatal(err)
	}
	return l
}

func (r *rig) happened(what What) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.What == what {
			n++
		}
	}
	return n
}

// ctxFence drains until over is closed.
func ctxFence(over <-chan struct{}) func(context.Context, tokenstore.Token) error {
	return func(ctx context.Context, _ tokenstore.Token) error {
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return gate.ErrLeft
		}
	}
}

// empty wants nothing to be left of any lease.
func (r *rig) empty() {
	r.Helper()
	r.issuer.mu.Lock()
	defer r.issuer.mu.Unlock()
	if l := r.stored(); l.Held() || len(r.issuer.entries) > 0 || len(r.issuer.agenda) > 0 {
		r.Errorf("%+v is stored, %d entries, %d on the agenda", l, len(r.issuer.entries), len(r.issuer.agenda))
	}
}
