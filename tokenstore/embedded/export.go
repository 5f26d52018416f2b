package embedded

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

// Export writes all of a store that no process uses to w, without changing
// anything: the marker of a clean stop stays, or stays missing. settle is how
// long writes of before an unclean stop may still be applied, where the store
// does not remember more.
//
// It fails where a record is damaged or a key is lost: a store that was moved
// without it would admit stale writes. Its other errors are those of Open.
func Export(path string, settle time.Duration, w *dump.Writer) error {
	db, release, err := openIdle(path)
	if errors.Is(err, errStructure) {
		return damaged(filepath.Join(path, storeFile), err.Error())
	}
	if err != nil {
		return err
	}
	defer release()
	err = guard(func() error {
		return db.View(func(tx *bolt.Tx) error { return export(tx, path, settle, w) })
	})
	var record *tokenstore.DamagedError
	if err == nil || errors.As(err, &record) {
		return err
	}
	return explain(filepath.Join(path, storeFile), err)
}

func export(tx *bolt.Tx, dir string, settle time.Duration, w *dump.Writer) error {
	h, state, err := readHeader(tx, settle)
	if err != nil {
		return err
	}
	logs, err := readLogs(dir, state, h.Clean)
	if err != nil {
		return err
	}
	if err := doubtUnfenced(tx, &h, settle); err != nil {
		return err
	}
	h.ExportedAt, h.Granted = time.Now(), max(h.Granted, logs.leases.granted)
	if err := w.Begin(h); err != nil {
		return err
	}
	// Both are sorted, and the logs are newer.
	recent := slices.Sorted(maps.Keys(logs.records))
	addRecent := func() error {
		key := recent[0]
		recent = recent[1:]
		if logs.records[key].gone {
			return nil
		}
		return w.Add(dump.Record{Key: key, Record: logs.records[key].rec})
	}
	keys := tx.Bucket(keysBucket)
	err = keys.ForEach(func(k, raw []byte) error {
		key := tokenstore.Key(k)
		for len(recent) > 0 && recent[0] < key {
			if err := addRecent(); err != nil {
				return err
			}
		}
		if len(recent) > 0 && recent[0] == key {
			return addRecent()
		}
		rec, err := decodeRecord(k, raw)
		if err != nil {
			return &tokenstore.DamagedError{Key: key, Why: err.Error()}
		}
		return w.Add(dump.Record{Key: key, Record: rec})
	})
	for err == nil && len(recent) > 0 {
		err = addRecent()
	}
	if err != nil {
		return err
	}
	if want := keys.Sequence() + uint64(logs.added); uint64(w.Keys()) != want {
		return damaged(filepath.Join(dir, storeFile), fmt.Sprintf("there are %d records, and there should be %d", w.Keys(), want))
	}
	if err := exportLeases(tx, dir, logs.leases, w); err != nil {
		return err
	}
	return w.End()
}

// exportLeases writes the leases of the file, as the logs have left them.
func exportLeases(tx *bolt.Tx, dir string, logs leaseState, w *dump.Writer) error {
	held, number := map[tokenstore.Key]tokenstore.Lease{}, uint64(0)
	err := eachLease(tx, func(key tokenstore.Key, l tokenstore.Lease, damage *tokenstore.DamagedError) error {
		number++
		if _, newer := logs.changed[key]; !newer && damage != nil {
			return damage
		}
		held[key] = l
		return nil
	})
	if err != nil {
		return err
	}
	if b := tx.Bucket(leasesBucket); b != nil && b.Sequence() != number {
		return damaged(filepath.Join(dir, storeFile), fmt.Sprintf("there are %d leases in it, and there should be %d", number, b.Sequence()))
	}
	maps.Copy(held, logs.changed)
	for _, key := range slices.Sorted(maps.Keys(held)) {
		if l := held[key]; l.Held() {
			if err := w.AddLease(tokenstore.KeyLease{Key: key, Lease: l}); err != nil {
				return damaged(filepath.Join(dir, storeFile), err.Error())
			}
		}
	}
	return nil
}

// readHeader reads what is said of the whole store.
func readHeader(tx *bolt.Tx, settle time.Duration) (h dump.Header, state logState, err error) {
	if err := checkFormat(tx); err != nil {
		return h, state, err
	}
	about := tx.Bucket(aboutBucket)
	var unsettled []string
	var unordered []byte
	var longest time.Duration
	clean, err1 := isClean(about)
	state, err2 := readLogState(about)
	rules, unsettled, err3 := readRules(tx.Bucket(rulesBucket))
	epochs, err4 := readEpochs(about)
	unordered, err5 := getSealed(about, unorderedKey)
	longest, err6 := readSettle(about)
	granted, err7 := readGranted(about)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		return h, state, err
	}
	h = dump.Header{Clean: clean, Rules: rules, Epochs: epochs, Granted: granted}
	if !clean {
		h.Settle = max(settle, longest)
		// A rule whose keys were changed before the crash has writes on their
		// way to keys that have no record yet.
		h.Unordered = unordered != nil || len(unsettled) > 0
	}
	return h, state, nil
}

// doubtUnfenced makes of a clean stop that has left unfenced writes behind an
// unclean one: a dump does not say what was fenced, and where it goes to other
// writes may be.
func doubtUnfenced(tx *bolt.Tx, h *dump.Header, settle time.Duration) error {
	about := tx.Bucket(aboutBucket)
	left, err1 := leftUnfenced(about)
	longest, err2 := readSettle(about)
	if left && h.Clean {
		h.Clean, h.Unordered, h.Settle = false, true, max(settle, longest)
	}
	return errors.Join(err1, err2)
}

// readEpochs returns the highest epochs that rules have had, but for 0.
func readEpochs(about *bolt.Bucket) (map[string]uint64, error) {
	epochs := map[string]uint64{}
	c := about.Cursor()
	for k, _ := c.Seek(epochKey("")); bytes.HasPrefix(k, epochKey("")); k, _ = c.Next() {
		b, err := getSealed(about, k)
		if err != nil || len(b) != 8 {
			return nil, fmt.Errorf("the entry %q: %w", k, cmp.Or(err, errSeal))
		}
		epochs[string(bytes.TrimPrefix(k, epochKey("")))] = binary.BigEndian.Uint64(b)
	}
	return epochs, nil
}
