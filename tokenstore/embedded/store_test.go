package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

// TestMain lets the test binary be its own child process.
func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	os.Exit(m.Run())
}

func TestStore(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T) func(t *testing.T) tokenstore.Store {
		dir := t.TempDir()
		return func(t *testing.T) tokenstore.Store { return open(t, dir) }
	})
}

// TestStoreFolding: a store keeps its promises while it folds all the time, and
// while every raise waits for a fold.
func TestStoreFolding(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T) func(t *testing.T) tokenstore.Store {
		dir := t.TempDir()
		return func(t *testing.T) tokenstore.Store { return openWith(t, dir, tuning{foldAt: 1, most: 1}, hooks{}) }
	})
}

// open opens a store that ends with the test at the latest.
func open(t testing.TB, dir string) *Store {
	t.Helper()
	return openWith(t, dir, tuning{}, hooks{})
}

// openWith opens a store with other limits, and with hooks.
func openWith(t testing.TB, dir string, limits tuning, h hooks) *Store {
	t.Helper()
	s, err := Open(Options{Path: dir, Create: true, tuning: limits, hooks: h})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close(false) })
	return s
}

// copyStore copies the files of a store as they are to a new directory, as a
// kill at this moment would leave them.
func copyStore(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // an old log, removed in between
		}
		if err == nil && f.Name() != lockFile {
			err = os.WriteFile(filepath.Join(to, f.Name()), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func mark(key tokenstore.Key, n uint64) tokenstore.Mark {
	return tokenstore.Mark{Key: key, Token: tokenstore.Token{Major: n}}
}

func acquire(t testing.TB, s *Store, marks ...tokenstore.Mark) {
	t.Helper()
	if _, err := s.Acquire(t.Context(), marks); err != nil {
		t.Fatalf("Acquire(%v): %v", marks, err)
	}
}

func wantHighest(t testing.TB, s *Store, key tokenstore.Key, n uint64) {
	t.Helper()
	rec, ok, err := s.Load(t.Context(), key)
	if err != nil || !ok || rec.Highest != (tokenstore.Token{Major: n}) {
		t.Fatalf("Load(%q) = %v, %v, %v; want %d", key, rec.Highest, ok, err, n)
	}
}

func TestLeases(t *testing.T) {
	for name, limits := range map[string]tuning{"in the log": {}, "while it folds all the time": {foldAt: 16, foldChunk: 3, most: 1}} {
		t.Run(name, func(t *testing.T) {
			storetest.RunDurableLeases(t, func(t *testing.T) func(t *testing.T) storetest.LeaseStore {
				dir := t.TempDir()
				return func(t *testing.T) storetest.LeaseStore { return openWith(t, dir, limits, hooks{}) }
			})
		})
	}
}
