package embedded

import (
	"context"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var (
	_ tokenstore.Leaser   = (*Store)(nil)
	_ tokenstore.Counting = (*Store)(nil)
)

// leaseAsk is one change of a lease on its way to the disk.
type leaseAsk struct {
	key    tokenstore.Key
	was    tokenstore.Lease
	decide func(b *batch, current tokenstore.Lease) (next tokenstore.Lease, err error)
	next   tokenstore.Lease // the committer's: what stands there, once it is durable
}

// Lease implements tokenstore.Leaser. All leases are in memory, each as it is
// on the disk.
func (s *Store) Lease(ctx context.Context, key tokenstore.Key) (tokenstore.Lease, error) {
	if ctx.Err() != nil {
		return tokenstore.Lease{}, tokenstore.Unavailable(context.Cause(ctx))
	}
	if err := s.usable(); err != nil {
		return tokenstore.Lease{}, err
	}
	return s.leases.load(key)
}

// GrantLease implements tokenstore.Leaser. It is decided with the raises, in
// the order in which they come, and shares their sync.
func (s *Store) GrantLease(ctx context.Context, key tokenstore.Key, was, next tokenstore.Lease, epoch uint64) (tokenstore.Lease, error) {
	if err := tokenstore.CheckLease(key, next); err != nil {
		return tokenstore.Lease{}, err
	}
	return s.changeLease(ctx, &leaseAsk{key: key, was: was, decide: func(b *batch, _ tokenstore.Lease) (tokenstore.Lease, error) {
		rec := b.slot(key)
		if rec.err != nil {
			return tokenstore.Lease{}, rec.err
		}
		token, err := tokenstore.NextToken(key, b.granted, rec.rec, rec.ok, epoch)
		next.Token, next.Beat = token, 0
		return next, err
	}})
}

// RenewLease implements tokenstore.Leaser.
func (s *Store) RenewLease(ctx context.Context, key tokenstore.Key, was tokenstore.Lease, ttl time.Duration) (tokenstore.Lease, error) {
	asked := was
	asked.TTL = ttl
	if err := tokenstore.CheckLease(key, asked); err != nil {
		return tokenstore.Lease{}, err
	}
	return s.changeLease(ctx, &leaseAsk{key: key, was: was, decide: func(_ *batch, current tokenstore.Lease) (tokenstore.Lease, error) {
		current.TTL = ttl
		current.Beat++
		return current, nil
	}})
}

// EndLease implements tokenstore.Leaser.
func (s *Store) EndLease(ctx context.Context, key tokenstore.Key, was tokenstore.Lease) error {
	if err := tokenstore.CheckMarks([]tokenstore.Mark{{Key: key}}); err != nil {
		return err
	}
	_, err := s.changeLease(ctx, &leaseAsk{key: key, was: was, decide: func(*batch, tokenstore.Lease) (tokenstore.Lease, error) {
		return tokenstore.Lease{}, nil
	}})
	return err
}

// Leases implements tokenstore.Leaser.
func (s *Store) Leases(ctx context.Context, each func(tokenstore.Key, tokenstore.Lease) bool) error {
	if ctx.Err() != nil {
		return tokenstore.Unavailable(context.Cause(ctx))
	}
	if err := s.usable(); err != nil {
		return err
	}
	all, err := s.leases.all()
	if err != nil {
		return err
	}
	for key, l := range all {
		if !each(key, l) {
			return nil
		}
	}
	return nil
}

// LeaseChanges is always nil: one proxy has this store to itself.
func (s *Store) LeaseChanges() <-chan tokenstore.Key { return nil }

// RaiseGranted implements tokenstore.Counting. It goes to the file itself, which
// a start reads beside the logs: the higher counter of both is the store's.
func (s *Store) RaiseGranted(ctx context.Context, granted uint64) (uint64, error) {
	if ctx.Err() != nil {
		return 0, tokenstore.Unavailable(context.Cause(ctx))
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.usable(); err != nil {
		return 0, err
	}
	if now := s.leases.counter(); now >= granted {
		return now, nil
	}
	err := s.changeAlone(func(tx *bolt.Tx) error { return raiseGranted(tx.Bucket(aboutBucket), granted) })
	if err != nil {
		return 0, tokenstore.Unavailable(err)
	}
	return s.leases.raise(granted), nil
}

// changeLease has one change committed, and returns what stands there then.
func (s *Store) changeLease(ctx context.Context, a *leaseAsk) (tokenstore.Lease, error) {
	if err := s.usable(); err != nil {
		return tokenstore.Lease{}, err
	}
	// After an error the committer may be at it still: a.next is not read.
	if err := s.group.ask(ctx, &request{lease: a, done: make(chan error, 1)}); err != nil {
		return tokenstore.Lease{}, err
	}
	return a.next, nil
}

// leaseChange is a lease as one step of a batch leaves it; not held where it
// was ended.
type leaseChange struct {
	key   tokenstore.Key
	lease tokenstore.Lease
}

// decideLease takes the change of a lease into the batch, or returns the
// refusal. Each step is kept, and not only what it leaves: a token that was
// granted and ended in one batch must be found in the log, or it would be
// granted again.
func (b *batch) decideLease(a *leaseAsk) error {
	current, err := b.lease(a.key)
	switch {
	case err != nil:
		return err
	case !current.Same(a.was):
		return &tokenstore.LeaseError{Key: a.key, Current: current}
	}
	if a.next, err = a.decide(b, current); err != nil {
		return err
	}
	if current.Held() || a.next.Held() { // else nobody's was ended
		b.setLease(a.key, a.next)
	}
	return nil
}

// lease returns the lease of key as the batch leaves it so far.
func (b *batch) lease(key tokenstore.Key) (tokenstore.Lease, error) {
	if l, ok := b.leased[key]; ok {
		return l, nil
	}
	return b.leases.load(key)
}

func (b *batch) setLease(key tokenstore.Key, l tokenstore.Lease) {
	if b.leased == nil {
		b.leased = map[tokenstore.Key]tokenstore.Lease{}
	}
	b.leased[key] = l
	b.leaseChanges = append(b.leaseChanges, leaseChange{key, l})
	if l.Held() {
		b.granted = max(b.granted, l.Token.Major)
	}
}
