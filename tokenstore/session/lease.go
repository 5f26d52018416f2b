package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var (
	_ tokenstore.Leaser   = (*Store)(nil)
	_ tokenstore.Counting = (*Store)(nil)
)

// leases is what a Store knows of the leases of all proxies. A lease belongs
// to no session: whoever has its ID may renew it by any proxy, and a proxy
// without a session may carry that out, since each call is decided in the
// store and says what stands there. What needs a session is the raise that
// makes a grant a fence.
type leases struct {
	out  chan tokenstore.Key
	kick chan struct{} // capacity 1
	turn chan struct{} // capacity 1; held by the grant that is under way

	mu      sync.Mutex // guards what follows; taken last
	changed map[tokenstore.Key]struct{}
	seen    uint64 // the highest counter or floor that was seen
	granted uint64 // the counter as it was last seen
	looked  bool   // it was seen
}

// maxLeaseNews bounds the keys that nobody has fetched yet.
const maxLeaseNews = 1 << 16

func (l *leases) init() {
	l.out, l.kick, l.turn = make(chan tokenstore.Key), make(chan struct{}, 1), make(chan struct{}, 1)
	l.changed = map[tokenstore.Key]struct{}{}
}

// saw notes the counter of the store. A lower one than before is that of a
// store that was rolled back: its tokens go on above all that were seen.
func (l *leases) saw(now LeaseState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.granted, l.looked = now.Granted, true
	l.seen = max(l.seen, now.Granted, now.Floor)
}

// believed is what a grant without a look begins from; ok is false before the
// first look.
func (l *leases) believed(was tokenstore.Lease) (now LeaseState, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return LeaseState{Lease: was, Granted: l.granted, Floor: l.seen}, l.looked && (!was.Held() || storable(was))
}

func (l *leases) floor() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// Lease implements tokenstore.Leaser.
func (s *Store) Lease(ctx context.Context, key tokenstore.Key) (tokenstore.Lease, error) {
	now, err := s.leaseState(ctx, key)
	return now.Lease, err
}

func (s *Store) leaseState(ctx context.Context, key tokenstore.Key) (now LeaseState, err error) {
	err = s.leaseCall(ctx, OpLease, func(ctx context.Context) (err error) {
		now, err = s.backend.LeaseState(ctx, key)
		return err
	})
	if err != nil {
		return LeaseState{}, err
	}
	s.leases.saw(now)
	return now, nil
}

// GrantLease implements tokenstore.Leaser. The counter makes all grants of all
// proxies follow one another; those of this one wait for their turn here, and
// so do not refute each other in the store.
func (s *Store) GrantLease(ctx context.Context, key tokenstore.Key, was, next tokenstore.Lease, epoch uint64) (tokenstore.Lease, error) {
	if err := tokenstore.CheckLease(key, next); err != nil {
		return tokenstore.Lease{}, err
	}
	select {
	case s.leases.turn <- struct{}{}:
		defer func() { <-s.leases.turn }()
	case <-ctx.Done():
		return tokenstore.Lease{}, tokenstore.Unavailable(context.Cause(ctx))
	case <-s.ctx.Done():
		return tokenstore.Lease{}, tokenstore.Unavailable(errClosed)
	}
	// The first try goes without a look, by what is known: mostly it holds.
	now, believed := s.leases.believed(was)
	if !believed {
		var err error
		if now, err = s.leaseState(ctx, key); err != nil {
			return tokenstore.Lease{}, err
		}
	}
	for ; ; believed = false {
		if !now.Lease.Same(was) {
			return tokenstore.Lease{}, &tokenstore.LeaseError{Key: key, Current: now.Lease}
		}
		if now.Damaged != nil {
			return tokenstore.Lease{}, now.Damaged
		}
		token, err := tokenstore.NextToken(key, max(now.Granted, s.leases.floor()), now.Record, now.Exists, epoch)
		if err != nil && believed {
			// Nothing is refused by what is only believed.
			if now, err = s.leaseState(ctx, key); err != nil {
				return tokenstore.Lease{}, err
			}
			continue
		}
		if err != nil {
			return tokenstore.Lease{}, err
		}
		next.Token, next.Beat = token, 0
		done, instead, err := s.swapLease(ctx, LeaseSwap{Key: key, Was: now.Lease, Next: next, Grant: true, Granted: now.Granted})
		if err != nil {
			return tokenstore.Lease{}, err
		}
		if done {
			s.leases.saw(LeaseState{Granted: token.Major})
			return next, nil
		}
		now = instead
	}
}

// RenewLease implements tokenstore.Leaser.
func (s *Store) RenewLease(ctx context.Context, key tokenstore.Key, was tokenstore.Lease, ttl time.Duration) (tokenstore.Lease, error) {
	asked := was
	asked.TTL = ttl
	if err := tokenstore.CheckLease(key, asked); err != nil {
		return tokenstore.Lease{}, err
	}
	return s.replaceLease(ctx, key, was, func(current tokenstore.Lease) tokenstore.Lease {
		current.TTL = ttl
		current.Beat++
		return current
	})
}

// EndLease implements tokenstore.Leaser.
func (s *Store) EndLease(ctx context.Context, key tokenstore.Key, was tokenstore.Lease) error {
	if err := tokenstore.CheckMarks([]tokenstore.Mark{{Key: key}}); err != nil {
		return err
	}
	_, err := s.replaceLease(ctx, key, was, func(tokenstore.Lease) tokenstore.Lease { return tokenstore.Lease{} })
	return err
}

// replaceLease makes next of what stands there. Only the ID and the beat of
// was are to be believed, so a first try that the store refuses says nothing
// but what to compare.
func (s *Store) replaceLease(ctx context.Context, key tokenstore.Key, was tokenstore.Lease, next func(current tokenstore.Lease) tokenstore.Lease) (tokenstore.Lease, error) {
	current := was
	if !storable(was) { // no value of it stands in a store
		now, err := s.leaseState(ctx, key)
		if err != nil {
			return tokenstore.Lease{}, err
		}
		current = now.Lease
	}
	for {
		if !current.Same(was) {
			return tokenstore.Lease{}, &tokenstore.LeaseError{Key: key, Current: current}
		}
		if !current.Held() {
			return current, nil // nobody's is ended
		}
		to := next(current)
		done, now, err := s.swapLease(ctx, LeaseSwap{Key: key, Was: current, Next: to})
		if err != nil {
			return tokenstore.Lease{}, err
		}
		if done {
			return to, nil
		}
		current = now.Lease
	}
}

// RaiseGranted implements tokenstore.Counting.
func (s *Store) RaiseGranted(ctx context.Context, granted uint64) (now uint64, err error) {
	err = s.leaseCall(ctx, OpLease, func(ctx context.Context) (err error) {
		now, err = s.backend.RaiseGranted(ctx, granted)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.leases.saw(LeaseState{Granted: now})
	return now, nil
}

// storable reports whether a lease that a caller believes in can be one.
func storable(l tokenstore.Lease) bool {
	return len(l.ID) > 0 && len(l.ID) <= tokenstore.MaxLeaseID && len(l.Holder) <= tokenstore.MaxHolder && l.TTL > 0
}

func (s *Store) swapLease(ctx context.Context, swap LeaseSwap) (done bool, now LeaseState, err error) {
	err = s.leaseCall(ctx, OpLease, func(ctx context.Context) (err error) {
		done, now, err = s.backend.SwapLease(ctx, swap)
		return err
	})
	if err != nil {
		return false, LeaseState{}, err
	}
	if !done {
		s.leases.saw(now)
	}
	return done, now, nil
}

// Leases implements tokenstore.Leaser.
func (s *Store) Leases(ctx context.Context, each func(tokenstore.Key, tokenstore.Lease) bool) error {
	var held []tokenstore.KeyLease
	err := s.leaseCall(ctx, OpLeases, func(ctx context.Context) (err error) {
		held, _, err = s.backend.Leases(ctx)
		return err
	})
	if err != nil {
		return err
	}
	told := make(map[tokenstore.Key]struct{}, len(held))
	for _, l := range held {
		if _, twice := told[l.Key]; twice {
			continue // an engine that reads in parts may have met it twice
		}
		told[l.Key] = struct{}{}
		if !each(l.Key, l.Lease) {
			return nil
		}
	}
	return nil
}

// leaseCall is call for leases, which fail closed.
func (s *Store) leaseCall(ctx context.Context, op Op, do func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return tokenstore.Unavailable(context.Cause(ctx))
	}
	if s.ctx.Err() != nil {
		return tokenstore.Unavailable(errClosed)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errClosed) })()
	// Close waits for it: the backend may not be closed before.
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return tokenstore.Unavailable(errClosed)
	}
	s.done.Add(1)
	s.mu.Unlock()
	defer s.done.Done()
	err := s.call(ctx, op, do)
	if err != nil && !errors.Is(err, tokenstore.ErrUnavailable) {
		err = tokenstore.Unavailable(err)
	}
	return err
}

// LeaseChanges implements tokenstore.Leaser. It tells of this proxy's own
// changes too.
func (s *Store) LeaseChanges() <-chan tokenstore.Key { return s.leases.out }

var _ LeaseSink = sink{}

// Leased takes over that a lease was granted or ended. What nobody fetches is
// dropped some time: it is a hint.
func (k sink) Leased(key tokenstore.Key) {
	l := &k.s.leases
	l.mu.Lock()
	if len(l.changed) < maxLeaseNews {
		l.changed[key] = struct{}{}
	}
	l.mu.Unlock()
	kick(l.kick)
}

func (l *leases) take() map[tokenstore.Key]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.changed
	l.changed = map[tokenstore.Key]struct{}{}
	return changed
}

// tellLeases passes them on. Hearing never waits for whoever listens.
func (s *Store) tellLeases() {
	for {
		select {
		case <-s.leases.kick:
		case <-s.ctx.Done():
			return
		}
		for key := range s.leases.take() {
			select {
			case s.leases.out <- key:
			case <-s.ctx.Done():
				return
			}
		}
	}
}
