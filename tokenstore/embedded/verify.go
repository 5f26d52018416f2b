package embedded

import (
	"errors"
	"fmt"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// maxProblems bounds what a Report lists.
const maxProblems = 100

// Report is what Verify found.
type Report struct {
	// Keys is the number of keys that have a record, damaged ones included, in
	// the file or in a log.
	Keys int64
	// Leases is the number of leases that are held, damaged ones included.
	Leases int64
	// Clean says that the store carries the marker of a clean stop.
	Clean bool
	// Damaged is the number of records and leases that do not pass their
	// checksum.
	Damaged int64
	// Problems says in words what is wrong, at most 100 lines. The store is
	// sound where there are none.
	Problems []string
}

// Sound reports whether nothing is wrong.
func (r Report) Sound() bool { return len(r.Problems) == 0 }

func (r *Report) add(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Verify checks every record and lease, and the structure of a store that no process
// uses, and its logs, without changing anything. It finds what no single read
// can see: a key that was lost. It reads all files and takes some 100 bytes of
// memory a page.
//
// Its errors are those of Open; what is wrong inside a store that could be
// opened is in the Report.
func Verify(path string) (Report, error) {
	var r Report
	db, release, err := openIdle(path)
	if errors.Is(err, errStructure) {
		r.add("%v", err)
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer release()
	var logs error // a log that Open would not take
	err = guard(func() error {
		return db.View(func(tx *bolt.Tx) error {
			err := r.check(tx, path)
			if errors.Is(err, ErrDamaged) {
				logs, err = err, nil
			}
			return err
		})
	})
	if errors.Is(err, tokenstore.ErrForeign) {
		return r, explain(filepath.Join(path, storeFile), err)
	}
	if err != nil {
		r.add("%v", err)
	}
	return r, logs
}

// check looks at everything with the eyes of bbolt, then at every record, and
// then at the logs in dir.
func (r *Report) check(tx *bolt.Tx, dir string) error {
	for err := range tx.Check() {
		r.add("structure: %v", err)
	}
	if err := checkFormat(tx); err != nil {
		return err
	}
	about := tx.Bucket(aboutBucket)
	clean, err := isClean(about)
	if err != nil {
		r.add("%v", err)
	}
	r.Clean = clean
	if _, _, err := readRules(tx.Bucket(rulesBucket)); err != nil {
		r.add("%v", err)
	}
	keys := tx.Bucket(keysBucket)
	err = keys.ForEach(func(k, raw []byte) error {
		r.Keys++
		if _, err := decodeRecord(k, raw); err != nil {
			r.Damaged++
			r.add("%v", &tokenstore.DamagedError{Key: tokenstore.Key(k), Why: err.Error()})
		}
		return nil
	})
	if err != nil {
		return err
	}
	state, err := readLogState(about)
	if err != nil {
		return err
	}
	logs, err := readLogs(dir, state, clean)
	if err != nil {
		return err
	}
	for key, e := range logs.records {
		switch inFile := keys.Get([]byte(key)) != nil; {
		case e.gone && inFile:
			r.Keys--
		case !e.gone && !inFile:
			r.Keys++
		}
	}
	// A fold that a crash cut off has brought some of the new keys of the logs
	// to the file, but not their number.
	if want := keys.Sequence() + uint64(logs.added); uint64(r.Keys) != want {
		r.add("there are %d records, and there should be %d", r.Keys, want)
	}
	return r.checkLeases(tx, logs.leases)
}

// checkLeases looks at every lease in the file, as the logs have left it.
func (r *Report) checkLeases(tx *bolt.Tx, logs leaseState) error {
	b := tx.Bucket(leasesBucket)
	granted, err := readGranted(tx.Bucket(aboutBucket))
	if err != nil {
		r.add("%v", err)
	}
	granted, readable := max(granted, logs.granted), err == nil
	number := uint64(0)
	err = eachLease(tx, func(key tokenstore.Key, l tokenstore.Lease, damage *tokenstore.DamagedError) error {
		number++
		_, newer := logs.changed[key]
		switch {
		case newer:
			return nil // the next start puts that in its place
		case damage != nil:
			r.Damaged++
			r.add("%v", damage)
		case l.Token.Major > granted && readable:
			r.add("the lease of key %s has token %s, and the last one that was granted is %d", key, l.Token, granted)
		}
		r.Leases++
		return nil
	})
	for _, l := range logs.changed {
		if l.Held() {
			r.Leases++
		}
	}
	if b != nil && number != b.Sequence() {
		r.add("there are %d leases in the file, and there should be %d", number, b.Sequence())
	}
	return err
}
