package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

// Options say how a store is opened.
type Options struct {
	// Path is the directory of the store.
	Path string
	// Create makes a store where there is none. An unmounted volume looks just
	// like no store, so a warning is logged each time.
	Create bool
	// Rules are the fingerprints of the rules in use. Where they are nil, no
	// fingerprint is compared or remembered.
	Rules tokenstore.Rules
	// Epochs are the epochs of the rules by their names. A lower one than a rule
	// has had is refused.
	Epochs map[string]uint64
	// AcceptChanged names the rules whose fingerprint may be another than the
	// one on record.
	AcceptChanged []string
	// Unordered says that writes may pass in this life of which no record
	// tells: without a token, or only looked on. The store remembers it until a
	// clean stop.
	Unordered bool
	// Fences stands for which writes are fenced. A crash is held against a life with
	// others, and so are writes that no fence touched and whose fate was not known at
	// a clean stop: see Store.LeaveUnfenced. Where it is empty, it is neither compared nor
	// remembered.
	Fences string
	// Settle is the longest time after which a write of this life may still be
	// applied. The store remembers it until a clean stop.
	Settle time.Duration
	// Logger takes the warnings; nil drops them.
	Logger *zap.Logger

	moved  *dump.Header // of a dump that is imported, else nil
	tuning tuning       // zero for the defaults
	hooks  hooks
}

// Open opens the store of one proxy, and holds it until Close: the lock comes
// first, before anything is read (rule 1). When it returns, the marker of a
// clean stop is durably erased (rule 2, story F).
//
// Its errors wrap ErrLocked, ErrMissing, ErrForeign or ErrDamaged, or are a
// *tokenstore.ChangedRulesError or *tokenstore.EpochError, or come from the file
// system. It never waits
// for a lock, and never begins anew over a file that is there.
func Open(o Options) (*Store, error) {
	log := o.Logger
	if log == nil {
		log = zap.NewNop()
	}
	lockFile, created, err := claim(o.Path, o.Create)
	if err != nil {
		return nil, err
	}
	if created {
		log.Warn("a new token store was made; if there was one before, its volume may not be mounted: stop now, since the new one remembers no token",
			zap.String("path", o.Path))
	}
	s, err := openFile(filepath.Join(o.Path, storeFile), o)
	if err != nil {
		_ = lockFile.Close()
		return nil, err
	}
	s.lock, s.created = lockFile, created
	if len(s.changed) > 0 {
		log.Warn("the keys of some rules are made otherwise than before, as accepted; the marks of their old keys count no more", zap.Strings("rules", s.changed))
	}
	if s.doubt {
		log.Warn("writes that no rule fenced then, or under other keys, may still be on their way since the last stop, and the rules fence others now: every key is quarantined")
	}
	s.start()
	return s, nil
}

// claim takes the lock of a store's directory and makes the store where it may
// and there is none.
func claim(dir string, mayCreate bool) (lockFile *os.File, created bool, err error) {
	path := filepath.Join(dir, storeFile)
	if mayCreate {
		if err := makeDir(dir); err != nil {
			return nil, false, fmt.Errorf("the directory of the store cannot be made: %w", err)
		}
	} else if missing, err := isMissing(path); err != nil || missing {
		// Before the lock, which would leave a file in a directory that may
		// be the mount point of a volume that is not there.
		return nil, false, errors.Join(err, missingError(dir, missing))
	}
	if lockFile, err = lock(dir); err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil {
			_ = lockFile.Close()
		}
	}()
	if err := os.Remove(filepath.Join(dir, newFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("what an interrupted start left behind cannot be removed: %w", err)
	}
	missing, err := isMissing(path)
	switch {
	case err != nil:
		return nil, false, err
	case missing && !mayCreate:
		return nil, false, missingError(dir, true)
	case missing:
		// Logs without their store: its marks would be forgotten.
		if logs, err := listLogs(dir); err != nil || len(logs) > 0 {
			return nil, false, errors.Join(err, damaged(path, "it is missing, and its logs are there"))
		}
		return lockFile, true, create(dir)
	}
	return lockFile, false, nil
}

func isMissing(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

func missingError(dir string, missing bool) error {
	if !missing {
		return nil
	}
	return fmt.Errorf("%w: %s; mount the volume that holds it, or set create: true (or run `fenceproxy store init`) if this is its first start", tokenstore.ErrMissing, dir)
}

// openFile opens the file of a store whose lock is held, and begins its life.
func openFile(path string, o Options) (*Store, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	err = checkFile(f)
	_ = f.Close()
	if err != nil {
		return nil, err
	}
	s := newStore()
	s.dir, s.logger, s.tuning, s.hooks = filepath.Dir(path), o.Logger, o.tuning.withDefaults(), o.hooks
	if s.logger == nil {
		s.logger = zap.NewNop()
	}
	if s.db, err = openBolt(path, os.O_RDWR, bolt.Options{OpenFile: s.keepFile}); err != nil {
		return nil, err
	}
	if err := guard(func() error { return s.begin(o) }); err != nil {
		_ = guard(s.db.Close)
		if s.log != nil {
			_ = s.log.close()
		}
		if !isRefusal(err) {
			forgetStore(s.dir)
		}
		return nil, explain(path, err)
	}
	return s, nil
}

// begin replays the logs, begins the log of this life, and then the life. The
// order counts: what the logs say is on the disk before anything is told of
// it, nothing is appended to a log that was replayed, and the file speaks of a
// log only when that is on the disk.
func (s *Store) begin(o Options) error {
	// A kill may have come between the write and the sync of the file's header.
	// The disk then still has the one before, and the next transaction would
	// overwrite pages which that needs.
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("what the last life wrote cannot be synced: %w", err)
	}
	state, clean, err := readState(s.db)
	if err != nil {
		return err
	}
	r, err := readLogs(s.dir, state, clean)
	if err != nil {
		return err
	}
	if err := r.repair(s.dir, s.hooks.afterSync); err != nil {
		return err
	}
	if s.log, err = newLog(s.dir, r.last+1); err != nil {
		return fmt.Errorf("a log cannot be begun: %w", err)
	}
	s.reached("log made")
	if r.empty() {
		state.folded = r.last // logs without a change need no fold
	}
	state.begun = s.log.generation
	err = s.db.Update(func(tx *bolt.Tx) (err error) {
		s.recovered, s.changed, err = beginLife(tx, o.Rules, o.AcceptChanged)
		if err == nil {
			s.unfenced, s.doubt, err = beginFences(tx.Bucket(aboutBucket), o.Fences, s.recovered)
			s.recovered, s.known = s.recovered || s.doubt, o.Fences != ""
		}
		if err == nil {
			s.unordered, err = beginUnordered(tx.Bucket(aboutBucket), o.Unordered || s.doubt)
		}
		if err == nil {
			s.settle, err = beginSettle(tx.Bucket(aboutBucket), o.Settle)
		}
		if err == nil {
			err = raiseEpochs(tx.Bucket(aboutBucket), o.Epochs)
		}
		if err == nil {
			_, err = tx.CreateBucketIfNotExists(leasesBucket)
		}
		if err == nil && o.moved != nil {
			err = beginImport(tx, *o.moved, len(r.records) > 0)
		}
		if err != nil {
			return err
		}
		return state.write(tx.Bucket(aboutBucket))
	})
	if isRefusal(err) {
		// Nothing was written. After other errors the file may speak of the
		// log, which must be there then.
		return errors.Join(err, removeLogs(s.dir, []uint64{s.log.generation}))
	}
	if err != nil {
		return err
	}
	s.removeFolded(state.folded)
	if !r.empty() {
		s.recent.frozen = newFrozen(r.records, r.leases, r.last, r.bytes)
	}
	return s.db.View(func(tx *bolt.Tx) error {
		s.txid = uint64(tx.ID())
		s.keys.Store(int64(tx.Bucket(keysBucket).Sequence()) + r.added)
		return s.leases.begin(tx, r.leases)
	})
}

// forgetStore is what Store.closeFiles does behind a failure, for a start that
// failed: perhaps at a sync. The next one would read what the disk may not have,
// and find nothing left to sync.
func forgetStore(dir string) {
	forgetCache(filepath.Join(dir, storeFile))
	logs, _ := listLogs(dir)
	for _, g := range logs {
		forgetCache(filepath.Join(dir, logName(g)))
	}
}

// readState reads what decides how the logs are read.
func readState(db *bolt.DB) (state logState, clean bool, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		if err := checkFormat(tx); err != nil {
			return err
		}
		about := tx.Bucket(aboutBucket)
		if clean, err = isClean(about); err != nil {
			return err
		}
		state, err = readLogState(about)
		return err
	})
	return state, clean, err
}

// keepFile opens the file for bbolt and keeps it, for a look at its headers
// after a failed commit.
func (s *Store) keepFile(path string, flag int, mode os.FileMode) (f *os.File, err error) {
	s.file, err = os.OpenFile(path, flag, mode)
	return s.file, err
}

// openBolt opens a file with bbolt, whose ways are kept in check: no file is
// made unless flag says so, a lock is not waited for, and a panic closes the
// file. The free list is kept on disk, since finding the free pages by a scan
// of the whole file takes seconds for millions of keys.
func openBolt(path string, flag int, o bolt.Options) (db *bolt.DB, err error) {
	open := o.OpenFile
	if open == nil {
		open = os.OpenFile
	}
	var file *os.File
	o.OpenFile = func(path string, _ int, mode os.FileMode) (_ *os.File, err error) {
		file, err = open(path, flag, mode)
		return file, err
	}
	o.Timeout = 1 // nanosecond: one attempt
	o.PageSize = pageSize
	o.FreelistType = bolt.FreelistMapType
	o.NoStatistics = true
	err = guard(func() (err error) {
		db, err = bolt.Open(path, 0o600, &o)
		return err
	})
	if err == nil {
		return db, nil
	}
	if file != nil {
		_ = file.Close()
	}
	return nil, explain(path, err)
}

// explain says in the store's own terms what is wrong with a file.
func explain(path string, err error) error {
	switch {
	case isRefusal(err), errors.Is(err, ErrDamaged):
		return err
	case errors.Is(err, berrors.ErrTimeout):
		return locked(filepath.Dir(path))
	case errors.Is(err, tokenstore.ErrForeign):
		return fmt.Errorf("%s: %w", path, err)
	}
	var broken *panicError
	if errors.As(err, &broken) || errors.Is(err, errSeal) || errors.Is(err, berrors.ErrInvalid) || errors.Is(err, berrors.ErrChecksum) {
		return damaged(path, err.Error())
	}
	return fmt.Errorf("the store %s cannot be opened: %w", path, err)
}

// isRefusal reports whether a store is not opened because of what the
// configuration says, and not of what the file does.
func isRefusal(err error) bool {
	var changed *tokenstore.ChangedRulesError
	var epoch *tokenstore.EpochError
	return errors.As(err, &changed) || errors.As(err, &epoch)
}
