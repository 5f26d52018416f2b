// Package memory is a store of fencing tokens that forgets everything when its
// process ends: for trying out, and for tests.
package memory

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var errClosed = errors.New("it is closed")

// Store keeps records in memory, for one proxy. It never blocks, does no I/O,
// and is safe for concurrent use.
type Store struct {
	mu      sync.RWMutex // guards what follows
	records map[tokenstore.Key]tokenstore.Record
	leases  map[tokenstore.Key]tokenstore.Lease
	granted uint64 // the Major of the last lease's token
	closed  bool

	remembered tokenstore.Configuration
}

var (
	_ tokenstore.Store      = (*Store)(nil)
	_ tokenstore.Rememberer = (*Store)(nil)
	_ tokenstore.Counter    = (*Store)(nil)
)

// New returns an empty store.
func New() *Store {
	return &Store{records: map[tokenstore.Key]tokenstore.Record{}, leases: map[tokenstore.Key]tokenstore.Lease{}}
}

// Load implements tokenstore.Store.
func (s *Store) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, bool, error) {
	if ctx.Err() != nil {
		return tokenstore.Record{}, false, tokenstore.Unavailable(context.Cause(ctx))
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return tokenstore.Record{}, false, tokenstore.Unavailable(errClosed)
	}
	rec, ok := s.records[key]
	return rec, ok, nil
}

// Acquire implements tokenstore.Store. All marks are decided and recorded
// under one lock, which makes it the one atomic step of rule 6.
func (s *Store) Acquire(ctx context.Context, marks []tokenstore.Mark) (tokenstore.Grant, error) {
	if err := tokenstore.CheckMarks(marks); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, tokenstore.Unavailable(context.Cause(ctx))
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, tokenstore.Unavailable(errClosed)
	}
	next, changed := make([]tokenstore.Record, len(marks)), make([]bool, len(marks))
	for i, m := range marks {
		rec, ok := s.records[m.Key]
		var err error
		if next[i], changed[i], err = rec.Raise(ok, m, now); err != nil {
			return nil, err
		}
	}
	for i, m := range marks {
		if changed[i] {
			s.records[m.Key] = next[i]
		}
	}
	return tokenstore.Sole, nil
}

// Clear implements tokenstore.Store.
func (s *Store) Clear(key tokenstore.Key, token tokenstore.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec, ok := s.records[key]; ok && rec.Highest == token {
		rec.Clear = true
		s.records[key] = rec
	}
}

// Keys implements tokenstore.Counter.
func (s *Store) Keys() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return int64(len(s.records))
}

// Recovered is always false: every store is new.
func (s *Store) Recovered() bool { return false }

// Raised is always nil: no other proxy can use this store.
func (s *Store) Raised() <-chan tokenstore.Mark { return nil }

// Close makes every later call fail. There is no marker to write.
func (s *Store) Close(bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.records, s.leases = nil, nil
	return nil
}
