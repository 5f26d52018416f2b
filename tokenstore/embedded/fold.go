package embedded

import (
	"errors"
	"maps"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// damagePause is how many pauses lie before the next try of a fold that met a
// damaged page: it will hardly go better.
const damagePause = 60

// foldFrozen brings the frozen records into the file, however often it must
// try, and removes their logs. It runs in a goroutine of its own, for which
// Close waits.
func (s *Store) foldFrozen(f *frozen) {
	s.reached("fold due")
	for told := false; ; {
		err := s.fold(f.records, f.leases, logState{folded: f.last, begun: f.last + 1}, nil)
		if err == nil {
			s.reached("folded")
			s.recent.tried(nil)
			s.removeFolded(f.last)
			if told {
				s.logger.Info("raises are folded into the token store's file again", zap.String("path", s.dir))
			}
			s.group.poke() // the log in use may be due by now
			return
		}
		if !told && s.Err() == nil {
			told = true
			s.logger.Error("raises cannot be folded into the token store's file; they are safe in its logs, and more are taken while there is room; "+
				"make room on the disk, or run `fenceproxy store verify` if the file is damaged", zap.String("path", s.dir), zap.Int("keys", len(f.records)), zap.Error(err))
		}
		s.recent.tried(err)
		pause := s.tuning.pause
		if !passing(err) {
			pause *= damagePause
		}
		select {
		case <-s.failed:
			return
		case <-s.closed:
			return
		case <-time.After(pause):
		}
	}
}

// removeFolded removes the logs up to generation folded. Where that fails they
// only take space until the next start.
func (s *Store) removeFolded(folded uint64) {
	old, err := foldedLogs(s.dir, folded)
	if err = errors.Join(err, removeLogs(s.dir, old)); err != nil {
		s.logger.Warn("an old log of the token store cannot be removed; the next start tries again", zap.String("path", s.dir), zap.Error(err))
	}
	s.reached("old logs removed")
}

// fold brings records into the file in the order of the keys, since bbolt
// inserts sorted keys faster by orders of magnitude, in one transaction or
// several. The last of them says which logs count from now on, counts the
// keys, brings the counter of leases along, and carries out last where that is
// not nil. A crash before it leaves records and leases in the file that are in
// the logs too, which does no harm: the logs say the same or more, and it is
// the logs that say which keys are new.
func (s *Store) fold(records map[tokenstore.Key]raised, leases leaseState, state logState, last func(tx *bolt.Tx) error) error {
	keys := slices.Sorted(maps.Keys(records))
	added := uint64(0) // wraps around below 0, and back when it is added up
	if err := s.foldLeases(leases.changed); err != nil {
		return err
	}
	for {
		n := min(s.tuning.foldChunk, len(keys))
		chunk := keys[:n]
		keys = keys[n:]
		err := s.change(func(tx *bolt.Tx) error {
			bucket := tx.Bucket(keysBucket)
			for _, key := range chunk {
				e := records[key]
				if e.gone {
					if !e.added {
						added--
					}
					if err := bucket.Delete([]byte(key)); err != nil {
						return err
					}
					continue
				}
				if e.added {
					added++
				}
				if err := bucket.Put([]byte(key), encodeRecord([]byte(key), e.rec)); err != nil {
					return err
				}
			}
			if len(keys) > 0 {
				return nil
			}
			if err := bucket.SetSequence(bucket.Sequence() + added); err != nil {
				return err
			}
			about := tx.Bucket(aboutBucket)
			if err := errors.Join(raiseGranted(about, leases.granted), state.write(about)); err != nil || last == nil {
				return err
			}
			return last(tx)
		})
		if err != nil || len(keys) == 0 {
			return err
		}
		s.reached("part folded")
	}
}

// change carries out one transaction in the file. After an error nothing is
// known to be changed; the store is then poisoned unless it can go on.
func (s *Store) change(f func(tx *bolt.Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	// Another change may have failed since the last part of this fold: a header
	// of it that is in doubt must not be written over, and after a panic bbolt
	// would wait for ever for a transaction that nobody ends.
	if err := s.Err(); err != nil {
		return err
	}
	return s.changeAlone(f)
}

// changeAlone is change for who has the file to himself.
func (s *Store) changeAlone(f func(tx *bolt.Tx) error) error {
	tx, err := s.db.Begin(true)
	if err != nil {
		s.poison(err)
		return err
	}
	if err := guard(func() error { return f(tx) }); err != nil {
		// Nothing was allocated yet, so bbolt's plain rollback is enough.
		return errors.Join(err, s.rollback(tx))
	}
	return s.commitTx(tx)
}

// commitTx commits a transaction, or decides what its failure means.
func (s *Store) commitTx(tx *bolt.Tx) error {
	txid := tx.ID()
	err := guard(tx.Commit)
	if s.hooks.afterFold != nil {
		err = s.hooks.afterFold(err)
	}
	if err == nil {
		s.txid = uint64(txid)
		return nil
	}
	var broken *panicError
	if errors.As(err, &broken) {
		// Nobody knows how far it came, nor which of bbolt's locks it holds.
		s.stuck = true
		s.poison(err)
		return err
	}
	if !passing(err) || !s.untouched() {
		s.poison(err)
	}
	return err
}

// untouched reports whether both headers of the file are still those of the
// last transaction that is on the disk. A header that was written, be it in
// part, but not synced would make the next transaction overwrite pages which
// a crash still needs.
func (s *Store) untouched() bool {
	h, err := readHeaders(s.file)
	return err == nil && h.txid == s.txid
}

// rollback gives a transaction up in which nothing was allocated.
func (s *Store) rollback(tx *bolt.Tx) error {
	err := guard(tx.Rollback)
	if err != nil {
		s.stuck = true
		s.poison(err)
	}
	return err
}
