package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// errStructure: a page of the file refers to what cannot be. bbolt would
// follow the same reference.
var errStructure = errors.New("structure")

// openIdle opens the file of a store that no process uses, to read it: under
// the store's lock, and without changing anything. release gives both back.
func openIdle(path string) (db *bolt.DB, release func(), err error) {
	file := filepath.Join(path, storeFile)
	missing, err := isMissing(file)
	if err != nil || missing {
		return nil, nil, errors.Join(err, missingError(path, missing))
	}
	lockFile, err := lock(path)
	if err != nil {
		return nil, nil, err
	}
	if err = checkPages(file); err == nil {
		db, err = openBolt(file, os.O_RDONLY, bolt.Options{ReadOnly: true})
	}
	if err != nil {
		_ = lockFile.Close()
		return nil, nil, err
	}
	return db, func() {
		_ = guard(db.Close)
		_ = lockFile.Close()
	}, nil
}

// checkPages walks the file before bbolt does, which would panic or wander.
func checkPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := checkFile(f); err != nil {
		return err
	}
	h, err := readHeaders(f)
	if err != nil {
		return err
	}
	if err := walkPages(f, h); err != nil {
		return fmt.Errorf("%w: %w", errStructure, err)
	}
	return nil
}
