package memory

import (
	"context"
	"maps"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var (
	_ tokenstore.Leaser   = (*Store)(nil)
	_ tokenstore.Counting = (*Store)(nil)
)

// Lease implements tokenstore.Leaser.
func (s *Store) Lease(ctx context.Context, key tokenstore.Key) (tokenstore.Lease, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return tokenstore.Lease{}, err
	}
	return s.leases[key], nil
}

// GrantLease implements tokenstore.Leaser.
func (s *Store) GrantLease(ctx context.Context, key tokenstore.Key, was, next tokenstore.Lease, epoch uint64) (tokenstore.Lease, error) {
	if err := tokenstore.CheckLease(key, next); err != nil {
		return tokenstore.Lease{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stands(ctx, key, was); err != nil {
		return tokenstore.Lease{}, err
	}
	rec, ok := s.records[key]
	token, err := tokenstore.NextToken(key, s.granted, rec, ok, epoch)
	if err != nil {
		return tokenstore.Lease{}, err
	}
	next.Token, next.Beat = token, 0
	s.granted, s.leases[key] = token.Major, next
	return next, nil
}

// RenewLease implements tokenstore.Leaser.
func (s *Store) RenewLease(ctx context.Context, key tokenstore.Key, was tokenstore.Lease, ttl time.Duration) (tokenstore.Lease, error) {
	next := was
	next.TTL = ttl
	if err := tokenstore.CheckLease(key, next); err != nil {
		return tokenstore.Lease{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stands(ctx, key, was); err != nil {
		return tokenstore.Lease{}, err
	}
	next = s.leases[key]
	next.TTL = ttl
	next.Beat++
	s.leases[key] = next
	return next, nil
}

// EndLease implements tokenstore.Leaser.
func (s *Store) EndLease(ctx context.Context, key tokenstore.Key, was tokenstore.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stands(ctx, key, was); err != nil {
		return err
	}
	delete(s.leases, key)
	return nil
}

// Leases implements tokenstore.Leaser.
func (s *Store) Leases(ctx context.Context, each func(tokenstore.Key, tokenstore.Lease) bool) error {
	s.mu.RLock()
	all := maps.Clone(s.leases)
	err := s.usable(ctx)
	s.mu.RUnlock()
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

// LeaseChanges is always nil: no other proxy can use this store.
func (s *Store) LeaseChanges() <-chan tokenstore.Key { return nil }

// RaiseGranted implements tokenstore.Counting.
func (s *Store) RaiseGranted(ctx context.Context, granted uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	s.granted = max(s.granted, granted)
	return s.granted, nil
}

// stands is nil where was is the lease of key. The lock is held.
func (s *Store) stands(ctx context.Context, key tokenstore.Key, was tokenstore.Lease) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if current := s.leases[key]; !current.Same(was) {
		return &tokenstore.LeaseError{Key: key, Current: current}
	}
	return nil
}

// usable is nil while the store may be used. The lock is held.
func (s *Store) usable(ctx context.Context) error {
	if ctx.Err() != nil {
		return tokenstore.Unavailable(context.Cause(ctx))
	}
	if s.closed {
		return tokenstore.Unavailable(errClosed)
	}
	return nil
}
