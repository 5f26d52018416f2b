// Package storetest holds the promises of tokenstore.Store as one suite that
// every store runs, those of tokenstore.Leaser as another, and Faulty, a store that fails on purpose.
package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// soon is the longest that a call which MUST return soon may take here. It is
// far above what a working store needs, so that a busy machine does not fail
// the suite, and far below the deadlines of callers.
const soon = 10 * time.Second

// Run holds one store to the promises that need no second life. open returns a
// new, empty store each time; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) tokenstore.Store) {
	t.Helper()
	runAll(t, open, recordChecks, clearChecks, severalChecks, contextChecks, concurrentChecks, keyChecks, closeChecks, rememberChecks)
}

// RunShared is Run for a store that several proxies share, used by one of
// them: it never records clear, and tells of raises.
func RunShared(t *testing.T, open func(t *testing.T) tokenstore.Store) {
	t.Helper()
	runAll(t, open, recordChecks, severalChecks, contextChecks, concurrentChecks, keyChecks, closeChecks, rememberChecks)
	t.Run("it tells of raises elsewhere", func(t *testing.T) {
		s := open(t)
		t.Cleanup(func() { _ = s.Close(false) })
		if s.Raised() == nil {
			t.Error("Raised is nil, as for a store of one proxy")
		}
	})
	t.Run("it never says clear", func(t *testing.T) {
		s := open(t)
		t.Cleanup(func() { _ = s.Close(false) })
		mustAcquire(t, s, tokenstore.Mark{Key: "k", Token: token(7), Clear: true})
		s.Clear("k", token(7))
		if load(t, s, "k").Clear {
			t.Error("the record says clear, which only a proxy that is alone can know")
		}
	})
}

func runAll(t *testing.T, open func(t *testing.T) tokenstore.Store, groups ...[]check) {
	t.Helper()
	for _, group := range groups {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				s := open(t)
				t.Cleanup(func() { _ = s.Close(false) })
				c.run(t, s)
			})
		}
	}
}

// RunDurable is Run for a store that outlives its process, with its further
// lives. place makes a new place for a store and returns what opens the store
// there, the first time and every time after.
func RunDurable(t *testing.T, place func(t *testing.T) (open func(t *testing.T) tokenstore.Store)) {
	t.Helper()
	Run(t, func(t *testing.T) tokenstore.Store { return place(t)(t) })
	for _, c := range reopenChecks {
		t.Run(c.name, func(t *testing.T) {
			open := place(t)
			c.run(t, func() tokenstore.Store {
				s := open(t)
				t.Cleanup(func() { _ = s.Close(false) })
				return s
			})
		})
	}
}

// check is one promise.
type check struct {
	name string
	run  func(t *testing.T, s tokenstore.Store)
}

// token returns the token of a plain decimal number.
func token(n uint64) tokenstore.Token { return tokenstore.Token{Major: n} }

// mark asks for a plain token on a key.
func mark(key tokenstore.Key, n uint64) tokenstore.Mark {
	return tokenstore.Mark{Key: key, Token: token(n)}
}

// acquire records marks and gives the grant back at once.
func acquire(s tokenstore.Store, marks ...tokenstore.Mark) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	grant, err := s.Acquire(ctx, marks)
	if err != nil {
		return err
	}
	grant.Release()
	return nil
}

// mustAcquire fails the test where marks are not recorded.
func mustAcquire(t *testing.T, s tokenstore.Store, marks ...tokenstore.Mark) {
	t.Helper()
	if err := acquire(s, marks...); err != nil {
		t.Fatalf("Acquire(%v): %v", marks, err)
	}
}

// load returns the record of a key, which must be there.
func load(t *testing.T, s tokenstore.Store, key tokenstore.Key) tokenstore.Record {
	t.Helper()
	rec, ok, err := s.Load(context.Background(), key)
	if err != nil || !ok {
		t.Fatalf("Load(%q) = %v, %v, %v; want a record", key, rec, ok, err)
	}
	return rec
}

// wantNone fails the test where a key has a record.
func wantNone(t *testing.T, s tokenstore.Store, keys ...tokenstore.Key) {
	t.Helper()
	for _, key := range keys {
		if rec, ok, err := s.Load(context.Background(), key); ok || err != nil {
			t.Fatalf("Load(%q) = %v, %v, %v; want no record", key, rec, ok, err)
		}
	}
}

// wantHighest fails the test where the highest token of a key is another.
func wantHighest(t *testing.T, s tokenstore.Store, key tokenstore.Key, want tokenstore.Token) {
	t.Helper()
	if got := load(t, s, key).Highest; got != want {
		t.Fatalf("highest of %q = %v, want %v", key, got, want)
	}
}

// wantUnknown fails the test where err does not say that the result is
// unknown, or says more than that.
func wantUnknown(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Fatalf("error %v does not wrap ErrUnavailable", err)
	}
	var stale *tokenstore.StaleError
	var collision *tokenstore.CollisionError
	if errors.As(err, &stale) || errors.As(err, &collision) {
		t.Fatalf("error %v is unknown and a refusal at once", err)
	}
}

// wantStale fails the test where err is not exactly this refusal.
func wantStale(t *testing.T, err error, want tokenstore.StaleError) {
	t.Helper()
	var stale *tokenstore.StaleError
	if !errors.As(err, &stale) {
		t.Fatalf("error = %v, want a *StaleError", err)
	}
	if *stale != want {
		t.Fatalf("refused with %+v, want %+v", *stale, want)
	}
	if errors.Is(err, tokenstore.ErrUnavailable) {
		t.Fatalf("error %v is a refusal and unknown at once", err)
	}
}
