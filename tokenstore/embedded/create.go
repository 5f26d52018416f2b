package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

const (
	storeFile = "tokens.db"
	// newFile is a store that is being made. What stands there when a store is
	// opened was interrupted, and no mark was ever recorded in it.
	newFile = "tokens.db.new"
)

// create makes an empty store in dir, whose lock is held: under another name,
// synced, renamed, and the directory synced, so that a crash leaves either no
// store or a whole one. The new store carries the marker of a clean stop.
func create(dir string) (err error) {
	path := filepath.Join(dir, newFile)
	defer func() {
		if err != nil {
			_ = os.Remove(path)
			err = fmt.Errorf("a new store cannot be made in %s: %w", dir, err)
		}
	}()
	db, err := openBolt(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, bolt.Options{})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		if _, err := tx.CreateBucket(keysBucket); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(rulesBucket); err != nil {
			return err
		}
		about, err := tx.CreateBucket(aboutBucket)
		if err != nil {
			return err
		}
		return errors.Join(putSealed(about, formatKey, formatVersion), putSealed(about, cleanKey, cleanValue))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := syncPath(path); err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(dir, storeFile)); err != nil {
		return err
	}
	return syncPath(dir)
}

// makeDir makes a directory with all above it and syncs each, so that the
// store in it cannot be lost with its directory's entry.
func makeDir(dir string) error {
	var parents []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || filepath.Dir(d) == d {
			break
		}
		parents = append(parents, filepath.Dir(d))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range parents {
		if err := syncPath(d); err != nil {
			return err
		}
	}
	return nil
}

// syncPath syncs a file or a directory.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
