package gate

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

// keysRig is a gate whose store may have so many keys.
func keysRig(t *testing.T, limit int64) (*Gate, *storetest.Faulty) {
	store := storetest.NewFaulty(memory.New())
	g, err := New(store, Options{Settle: settle, MaxKeys: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	return g, store
}

func enterAndSettle(t *testing.T, g *Gate, claims ...Claim) error {
	ticket := new(Ticket)
	err := g.Enter(t.Context(), Request{Claims: claims, DrainTimeout: time.Second, Settle: settle}, ticket)
	if err == nil {
		ticket.Settle()
	}
	return err
}

// TestTooManyKeys: a new key is refused where there are as many as there may be,
// alone or beside one that has a record, and nothing is raised; keys with a
// record go on.
func TestTooManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := keysRig(t, 2)
		for _, claims := range [][]Claim{{on("a", 1)}, {on("b", 1)}, {on("a", 2), on("b", 2)}} {
			if err := enterAndSettle(t, g, claims...); err != nil {
				t.Fatalf("%v: %v", claims, err)
			}
		}
		for _, claims := range [][]Claim{{on("c", 1)}, {on("a", 3), on("c", 3)}} {
			if err := enterAndSettle(t, g, claims...); !errors.Is(err, ErrTooManyKeys) {
				t.Errorf("%v: %v, want too many keys", claims, err)
			}
		}
		if rec, _, _ := store.Load(t.Context(), "a"); rec.Highest != tok(2) || store.Keys() != 2 {
			t.Errorf("a has %v, and there are %d keys", rec.Highest, store.Keys())
		}
		if err := enterAndSettle(t, g, on("a", 2)); err != nil {
			t.Errorf("a refused write counts: %v", err)
		}
		g.Change(Options{MaxKeys: 3})
		if err := enterAndSettle(t, g, on("c", 1)); err != nil {
			t.Errorf("there is room again: %v", err)
		}
		g.Change(Options{})
		if err := enterAndSettle(t, g, on("d", 1)); err != nil {
			t.Errorf("there is no limit: %v", err)
		}
		if n := g.newKeys.Load(); n != 0 {
			t.Errorf("%d places are reserved for nothing", n)
		}
	})
}

// TestTooManyKeysConcurrent: raises that are on their way to the disk count. One
// on the same key needs no place of its own, and one that fails gives it back.
func TestTooManyKeysConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := keysRig(t, 1)
		release := store.HoldAcquire()
		first, higher := make(chan error, 1), make(chan error, 1)
		go func() { first <- enterAndSettle(t, g, on("a", 1)) }()
		synctest.Wait()
		go func() { higher <- enterAndSettle(t, g, on("a", 2)) }()
		synctest.Wait()
		if err := enterAndSettle(t, g, on("b", 1)); !errors.Is(err, ErrTooManyKeys) {
			t.Errorf("while the last place is being taken: %v", err)
		}
		store.Fail(tokenstore.ErrUnavailable)
		release()
		synctest.Wait()
		<-first
		if err := <-higher; errors.Is(err, ErrTooManyKeys) {
			t.Errorf("a higher token of the same key: %v", err)
		}
		store.Fail(nil)
		if n := g.newKeys.Load(); n != 0 {
			t.Errorf("%d places are reserved for nothing", n)
		}
		// What failed may be there or not; at most one key is.
		a, b := enterAndSettle(t, g, on("a", 3)), enterAndSettle(t, g, on("b", 3))
		if a != nil || !errors.Is(b, ErrTooManyKeys) || store.Keys() != 1 {
			t.Errorf("%v, %v, %d keys", a, b, store.Keys())
		}
	})
}

// TestTooManyKeysOnce: a key takes one place, however many raises of it are on
// their way and whichever of them ends first.
func TestTooManyKeysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := keysRig(t, 1)
		release := store.HoldAcquire()
		patient := func(token uint64) chan error {
			ended := make(chan error, 1)
			go func() {
				ticket := new(Ticket)
				err := g.Enter(t.Context(), Request{Claims: []Claim{on("a", token)}, DrainTimeout: time.Hour, Settle: settle}, ticket)
				if err == nil {
					ticket.Settle()
				}
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		first := patient(1)
		if err := enterAndSettle(t, g, on("a", 2)); !errors.Is(err, tokenstore.ErrUnavailable) {
			t.Errorf("the store did not answer: %v", err)
		}
		last := patient(3)
		release()
		<-first
		if err := <-last; err != nil {
			t.Error(err)
		}
		if n := g.newKeys.Load(); n != 0 || store.Keys() != 1 {
			t.Errorf("%d places are reserved for nothing; %d keys", n, store.Keys())
		}
	})
}

// uncounted hides that a store counts.
type uncounted struct{ tokenstore.Store }

// TestTooManyKeysUncounted: a limit that nobody can hold is no limit: it fails
// closed.
func TestTooManyKeysUncounted(t *testing.T) {
	if _, err := New(uncounted{memory.New()}, Options{Settle: settle, MaxKeys: 1}); err == nil {
		t.Error("a gate was made")
	}
	g, err := New(uncounted{memory.New()}, Options{Settle: settle})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Stop()
	g.Change(Options{MaxKeys: 1})
	if err := enterAndSettle(t, g, on("a", 1)); !errors.Is(err, ErrTooManyKeys) {
		t.Errorf("%v, want too many keys", err)
	}
}

// TestTooManyKeysObserved: what is only looked on passes, and is told.
func TestTooManyKeysObserved(t *testing.T) {
	inUnorderedTime(t, func(r *rig) {
		r.gate.Change(Options{MaxKeys: 1}) // of a store that does not count
		var seen Seen
		r.observe("o", &seen, on("k", 1)).mustBeSent()
		if !errors.Is(seen.Refusal, ErrTooManyKeys) || len(r.disk.records) > 0 {
			t.Errorf("%+v, %v", seen, r.disk.records)
		}
	})
}
