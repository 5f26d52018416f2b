package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Store is an open store. It is safe for concurrent use.
type Store struct {
	lock      *os.File // locked while the store is open
	created   bool
	recovered bool
	changed   []string

	db   *bolt.DB
	file *os.File // bbolt's own, read after a failed commit

	group   *group // its goroutine alone writes to db
	clears  clears
	durable durable
	keys    atomic.Int64

	failOnce sync.Once
	failErr  error         // set before failed is closed
	failed   chan struct{} // closed when the store is of no more use

	closeOnce sync.Once
	closeErr  error
	closed    chan struct{} // closed first thing by Close
	stuck     bool          // the committer's: a transaction could not be ended

	// afterCommit is called by the committer with what bbolt's commit said; a
	// test puts failures there. It is nil otherwise.
	afterCommit func(err error) error
}

var _ tokenstore.Store = (*Store)(nil)

func newStore() *Store {
	return &Store{failed: make(chan struct{}), closed: make(chan struct{})}
}

func (s *Store) start() { s.group = startGroup(s.commit) }

// Load implements tokenstore.Store. It reads without waiting for the
// committer, except where it met a record that is not on the disk yet.
func (s *Store) Load(ctx context.Context, key tokenstore.Key) (rec tokenstore.Record, ok bool, err error) {
	if ctx.Err() != nil {
		return rec, false, tokenstore.Unavailable(context.Cause(ctx))
	}
	if err := s.usable(); err != nil {
		return rec, false, err
	}
	var txid int
	var damage error
	err = guard(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			txid = tx.ID()
			raw := tx.Bucket(keysBucket).Get([]byte(key))
			if raw != nil {
				rec, damage = decodeRecord([]byte(key), raw)
				ok = damage == nil
			}
			return nil
		})
	})
	if err != nil {
		return tokenstore.Record{}, false, fmt.Errorf("key %s cannot be read: %w", key, tokenstore.Unavailable(err))
	}
	// Even a damaged record and none at all are told only of a state that lasts.
	if err := s.durable.wait(ctx, txid, s.failed, s.closed); err != nil {
		return tokenstore.Record{}, false, err
	}
	if damage != nil {
		return tokenstore.Record{}, false, &tokenstore.DamagedError{Key: key, Why: damage.Error()}
	}
	return rec, ok, nil
}

// Acquire implements tokenstore.Store.
func (s *Store) Acquire(ctx context.Context, marks []tokenstore.Mark) (tokenstore.Grant, error) {
	if err := tokenstore.CheckMarks(marks); err != nil {
		return nil, err
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	if err := s.group.do(ctx, marks); err != nil {
		return nil, err
	}
	return tokenstore.Sole, nil
}

// Clear implements tokenstore.Store: it is written with the next raises, or by
// itself after 100 ms. At most 4,096 keys wait; more are dropped.
func (s *Store) Clear(key tokenstore.Key, token tokenstore.Token) {
	s.clears.add(key, token, s.group.poke)
}

// Recovered implements tokenstore.Store.
func (s *Store) Recovered() bool { return s.recovered }

// Raised is always nil: one proxy has this store to itself.
func (s *Store) Raised() <-chan tokenstore.Mark { return nil }

// Created reports whether Open made this store.
func (s *Store) Created() bool { return s.created }

// Changed names, sorted, the rules whose keys are made otherwise than when
// writes of before may have been sent: those that this Open accepted, and
// those accepted by an earlier one with no clean stop since. Where Recovered
// is true, all their keys are quarantined, with or without a record.
func (s *Store) Changed() []string { return append([]string(nil), s.changed...) }

// Keys returns how many keys have a record, without counting them.
func (s *Store) Keys() int64 { return s.keys.Load() }

// Failed is closed when a write has failed in a way that leaves the state of
// the file unknown, such as a failed sync. Every call fails from then on, and
// the process must end (rule 6). Err says why.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err is why Failed is closed, and nil while it is open.
func (s *Store) Err() error {
	select {
	case <-s.failed:
		return s.failErr
	default:
		return nil
	}
}

// Close implements tokenstore.Store. It waits for the commit under way, and
// with clean writes the marker durably; an error then means that there may be
// none. Further calls return what the first one returned.
func (s *Store) Close(clean bool) error {
	s.closeOnce.Do(func() {
		close(s.closed)
		s.clears.stop()
		s.group.stop()
		s.closeErr = s.end(clean)
	})
	return s.closeErr
}

// end closes the file when the committer has ended, and gives the lock back
// last of all.
func (s *Store) end(clean bool) error {
	err := s.Err()
	if err == nil && clean {
		if err = guard(func() error { return s.db.Update(endLife) }); err != nil {
			err = fmt.Errorf("the marker of a clean stop is not written: %w", err)
		}
	}
	if s.stuck {
		// bbolt's Close would wait for a transaction that nobody can end. The
		// lock stays with the process, which is about to end.
		return err
	}
	return errors.Join(err, guard(s.closeFile), s.lock.Close())
}

// closeFile closes the file. After a failure the kernel may hold pages that
// never reached the disk and take them for written: they are dropped from its
// cache, so that the next life reads what the disk has.
func (s *Store) closeFile() error {
	path := s.file.Name()
	err := s.db.Close()
	if s.Err() != nil {
		forgetCache(path)
	}
	return err
}

// usable is nil unless the store has failed or is closed.
func (s *Store) usable() error {
	select {
	case <-s.failed:
		return tokenstore.Unavailable(errFailed)
	case <-s.closed:
		return tokenstore.Unavailable(errClosed)
	default:
		return nil
	}
}

// poison ends the use of the store for good.
func (s *Store) poison(cause error) {
	s.failOnce.Do(func() {
		s.failErr = fmt.Errorf("%w: %w", errFailed, cause)
		close(s.failed)
	})
}
