package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Store is an open store. It is safe for concurrent use.
type Store struct {
	lock      *os.File // locked while the store is open
	created   bool
	recovered bool
	changed   []string
	unordered bool
	unfenced  bool
	doubt     bool // see beginFences
	known     bool // the same: the fences were compared
	settle    time.Duration
	leaves    atomic.Bool // see LeaveUnfenced

	dir    string
	logger *zap.Logger
	tuning tuning
	hooks  hooks

	group  *group // its goroutine, the committer, alone appends to log
	clears clears
	keys   atomic.Int64
	recent recent
	leases leaseTable

	// The committer's, and Close's when that has ended.
	log          *raiseLog
	rotateFailed time.Time // when the last rotation failed
	rotateErr    error     // and why

	// A fold's, of which one runs at a time, and Close's when that has ended.
	folds sync.WaitGroup
	db    *bolt.DB

	writing sync.Mutex // guards what follows: held for each transaction that writes
	file    *os.File   // bbolt's own, read after a failed commit
	txid    uint64     // of the last transaction that is on the disk
	stuck   bool       // a transaction could not be ended

	failOnce sync.Once
	failErr  error         // set before failed is closed
	failed   chan struct{} // closed when the store is of no more use

	closeOnce sync.Once
	closeErr  error
	closed    chan struct{} // closed first thing by Close
}

// hooks are where tests put failures and halts; all are nil otherwise.
type hooks struct {
	afterSync func(err error) error // given what the sync of a log said, says it instead
	afterFold func(err error) error // the same for bbolt's commit
	inView    func()                // when a transaction has begun that reads
	reached   func(step string)     // at each step of a rotation and a fold
}

func (s *Store) reached(step string) {
	if s.hooks.reached != nil {
		s.hooks.reached(step)
	}
}

var (
	_ tokenstore.Store      = (*Store)(nil)
	_ tokenstore.Rememberer = (*Store)(nil)
	_ tokenstore.Counter    = (*Store)(nil)
)

func newStore() *Store {
	return &Store{failed: make(chan struct{}), closed: make(chan struct{})}
}

// start starts the committer, and the fold of what was replayed.
func (s *Store) start() {
	_, f := s.recent.maps()
	s.group = startGroup(s.commit)
	if f != nil {
		s.folds.Go(func() { s.foldFrozen(f) })
	}
}

// Load implements tokenstore.Store. It never waits for the committer: what it
// sees is on the disk, in a log or in the file, and only came to the file from
// a log.
func (s *Store) Load(ctx context.Context, key tokenstore.Key) (rec tokenstore.Record, ok bool, err error) {
	if ctx.Err() != nil {
		return rec, false, tokenstore.Unavailable(context.Cause(ctx))
	}
	if err := s.usable(); err != nil {
		return rec, false, err
	}
	if e, ok := s.recent.load(key); ok {
		return e.rec, !e.gone, nil
	}
	// The transaction begins after the look at the recent records. The other
	// way round a fold could end in between and drop its records, and they
	// would be seen neither there nor in the file as it was before.
	err = guard(func() error {
		return s.db.View(func(tx *bolt.Tx) (err error) {
			if s.hooks.inView != nil {
				s.hooks.inView()
			}
			rec, ok, err = readRecord(tx.Bucket(keysBucket), key)
			return err
		})
	})
	var damaged *tokenstore.DamagedError
	switch {
	case err == nil:
		return rec, ok, nil
	case errors.As(err, &damaged):
		return tokenstore.Record{}, false, err
	default:
		return tokenstore.Record{}, false, fmt.Errorf("key %s cannot be read: %w", key, tokenstore.Unavailable(err))
	}
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

// Unordered reports whether writes of which no record tells may pass in this
// life, or might have in one since the last clean stop. Where Recovered is
// true, every key is quarantined then, with or without a record, whatever its
// record says.
func (s *Store) Unordered() bool { return s.unordered }

// Unfenced reports whether writes that no fence touched, neither then nor now,
// may be on their way since before the last stop, which was clean: Settle from
// now they are over. Until then a change of the fences has to wait for them, and
// a stop has to say LeaveUnfenced.
func (s *Store) Unfenced() bool { return s.unfenced }

// LeaveUnfenced says that writes which no fence touched may still be on their
// way when the store is closed. A clean stop stays one for a life with the same
// Options.Fences; another one is Recovered, and Unordered.
func (s *Store) LeaveUnfenced() { s.leaves.Store(true) }

// Settle is the longest Options.Settle of this life and of all since the last
// clean stop: how long writes of before a crash may still be applied.
func (s *Store) Settle() time.Duration { return s.settle }

// Keys implements tokenstore.Counter.
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

// Close implements tokenstore.Store. It waits for the batch and the fold under
// way. With clean it folds all raises into the file and writes the marker
// durably; an error then means that there may be none. Further calls return
// what the first one returned.
func (s *Store) Close(clean bool) error {
	s.closeOnce.Do(func() {
		close(s.closed)
		s.clears.stop()
		s.group.stop()
		s.folds.Wait()
		s.closeErr = s.end(clean)
	})
	return s.closeErr
}

// end closes the files when nothing runs any more, and gives the lock back
// last of all.
func (s *Store) end(clean bool) error {
	err := s.Err()
	if err == nil && clean {
		err = s.endClean()
	}
	s.writing.Lock() // Remember may still be at it
	defer s.writing.Unlock()
	if s.stuck {
		// bbolt's Close would wait for a transaction that nobody can end. The
		// lock stays with the process, which is about to end.
		return err
	}
	return errors.Join(err, guard(s.closeFiles), s.lock.Close())
}

// endClean folds what is in the logs and writes the marker, in one
// transaction at the end: a store with the marker has no raise in a log.
func (s *Store) endClean() error {
	last := s.log.generation
	records, leases := s.recent.all(s.leases.freeze())
	end := func(tx *bolt.Tx) error { return endLife(tx, s.leaves.Load(), s.known) }
	if err := s.fold(records, leases, logState{folded: last, begun: last}, end); err != nil {
		return fmt.Errorf("the marker of a clean stop is not written: %w", err)
	}
	s.reached("marker written")
	s.removeFolded(last)
	return nil
}

// closeFiles closes the file and the log. After a failure the kernel may hold
// pages that never reached the disk and take them for written: they are
// dropped from its cache, so that the next life reads what the disk has.
func (s *Store) closeFiles() error {
	paths := []string{s.file.Name(), s.log.file.Name()}
	err := errors.Join(s.db.Close(), s.log.close())
	if s.Err() != nil {
		for _, path := range paths {
			forgetCache(path)
		}
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
