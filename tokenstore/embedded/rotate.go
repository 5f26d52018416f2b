package embedded

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"
)

// tuning are the limits of a store's logs; tests have others.
type tuning struct {
	foldAt    int           // records in the log in use from which on it is folded
	foldBytes int64         // or bytes: one key alone can fill a log
	foldChunk int           // records in one transaction of a fold
	most      int           // so many times as much may be in the log in use, and once more in all
	pause     time.Duration // before a failed fold or rotation is tried again
}

// The more records a fold takes, the more of them share a page, and the less
// each costs. What speaks against more is the memory that they take (some 200
// bytes each), and the time that a start takes to read their logs: 70 ms for
// the 98,304 records of 20 bytes that may wait by default.
func (t tuning) withDefaults() tuning {
	if t.foldAt == 0 {
		t.foldAt = 32768
	}
	if t.foldBytes == 0 {
		t.foldBytes = 4 << 20
	}
	// Where keys lie far apart, each costs a page in memory and more on top.
	if t.foldChunk == 0 {
		t.foldChunk = 2048
	}
	if t.most == 0 {
		t.most = 2
	}
	if t.pause == 0 {
		t.pause = time.Second
	}
	return t
}

// fits reports whether one more batch may go to a log in use that has so many
// records and bytes, while f waits to be folded. Each start with a log that
// cannot be folded adds to f, which is why both are counted together too.
func (t tuning) fits(records int, bytes int64, f *frozen) bool {
	most, mostBytes := t.most*t.foldAt, int64(t.most)*t.foldBytes
	if records >= most || bytes >= mostBytes {
		return false
	}
	return f == nil || records+f.len() < most+t.foldAt && bytes+f.bytes < mostBytes+t.foldBytes
}

// rotate begins the next log where the one in use is long enough and no fold
// runs, and has the raises of the old one folded in the background. It runs in
// the committer, between batches.
//
// Its error says that no log could be begun, and why. The old one then goes
// on, and the next try comes after a pause. Anything in doubt poisons the
// store.
func (s *Store) rotate() error {
	current, f := s.recent.maps()
	n := len(current) + s.leases.changes()
	if f != nil || n == 0 || n < s.tuning.foldAt && s.log.end < s.tuning.foldBytes {
		return nil
	}
	if time.Since(s.rotateFailed) < s.tuning.pause {
		return s.rotateErr
	}
	next, err := newLog(s.dir, s.log.generation+1)
	if err != nil {
		var sync *syncError
		var left *leftError
		if errors.As(err, &sync) || errors.As(err, &left) {
			s.poison(err)
		}
		told := s.rotateErr != nil
		s.rotateFailed, s.rotateErr = time.Now(), err
		if told {
			return err
		}
		s.logger.Error("the next log of the token store cannot be begun; raises go on in the old one while it has room", zap.String("path", s.dir), zap.Error(err))
		return err
	}
	s.rotateErr = nil
	s.reached("log made")
	old := s.log
	f = s.recent.freeze(s.leases.freeze(), old.generation, old.end)
	s.log = next
	s.folds.Go(func() { s.foldFrozen(f) })
	_ = old.close() // all of it is synced
	return nil
}

// room returns when there is room for more raises. A fold that is under way is
// waited for: that slows the raises down to what the disk takes. While folds
// fail there is no room, which is told at once.
func (s *Store) room() error {
	for {
		// Before the rotation: the frame that failed may stand in the log in part,
		// which is damage where a later log was begun. A fold that ends only now
		// makes room for one.
		if s.Err() != nil {
			return errFailed
		}
		rotateErr := s.rotate()
		if s.Err() != nil {
			return errFailed
		}
		current, f := s.recent.maps()
		n := len(current) + s.leases.changes()
		if s.tuning.fits(n, s.log.end, f) {
			return nil
		}
		tried, failed := s.recent.trial()
		if failed = errors.Join(rotateErr, failed); failed != nil {
			return fmt.Errorf("%d raised keys wait in %s to be folded into the store's file, and no more are taken until that works: %w",
				n+f.len(), filepath.Join(s.dir, logName(s.log.generation)), failed)
		}
		if tried == nil {
			continue // the fold has ended just now
		}
		select {
		case <-tried:
		case <-s.failed:
			return errFailed
		case <-s.closed:
			return errClosed
		}
	}
}

// record writes what a batch has changed to the log and syncs it; then, and
// only then, readers see it.
func (s *Store) record(next *batch) error {
	size := 0
	for _, c := range next.changed {
		size += entryHead + len(c.key) + holderAt + len(c.rec.Holder) + sealSize
	}
	for _, c := range next.leaseChanges {
		size += entryHead + len(c.key) + leaseIDAt + len(c.lease.ID) + len(c.lease.Holder) + sealSize
	}
	if size > maxPayload {
		return fmt.Errorf("%d marks take %d bytes in one step (at most %d are allowed)", len(next.changed), size, maxPayload)
	}
	b := beginFrame(s.log.buf)
	added := int64(0)
	for _, c := range next.changed {
		switch {
		case !c.ok:
			b = appendGone(b, c.key)
			added--
		default:
			b = appendEntry(b, c.key, c.rec, c.added)
			if c.added {
				added++
			}
		}
	}
	for _, c := range next.leaseChanges {
		b = appendLease(b, c.key, c.lease)
	}
	s.log.buf = b
	if err := s.log.append(s.hooks.afterSync); err != nil {
		if !passing(err) {
			s.poison(err)
		}
		return err
	}
	s.recent.put(next.changed)
	s.leases.put(next.leaseChanges, next.granted)
	s.keys.Add(added)
	return nil
}
