package embedded

import (
	"os"
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

// open opens a store that ends with the test at the latest.
func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(Options{Path: dir, Create: true})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close(false) })
	return s
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
