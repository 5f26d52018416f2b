package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// contextChecks are the promises for callers that give up, and closeChecks
// those for callers that come too late.
var (
	contextChecks = []check{
		{"a context that is over gets an unknown result", testContextOver},
		{"callers that give up never lose a raise", testGiveUp},
	}
	closeChecks = []check{
		{"a closed store fails closed", testClosed},
	}
)

func testContextOver(t *testing.T, s tokenstore.Store) {
	mustAcquire(t, s, mark("k", 5))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, n := range []uint64{4, 5, 6} { // the stale one too: nothing is known
		began := time.Now()
		_, err := s.Acquire(ctx, []tokenstore.Mark{mark("k", n)})
		wantUnknown(t, err)
		if d := time.Since(began); d > soon {
			t.Fatalf("Acquire returned %v after its context had ended", d)
		}
	}
	if got := load(t, s, "k").Highest; got.Less(token(5)) {
		t.Fatalf("highest went down to %v", got)
	}
}

// testGiveUp: with deadlines around the time that a raise takes, some callers
// give up while their raise is on its way. Whatever was said to be recorded is
// there, and what is there was asked for.
func testGiveUp(t *testing.T, s tokenstore.Store) {
	const callers, rounds = 8, 40
	var mu sync.Mutex
	var acked tokenstore.Token
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for r := range rounds {
				tok := token(uint64(r*callers + c + 1))
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r*c)*20*time.Microsecond)
				grant, err := s.Acquire(ctx, []tokenstore.Mark{{Key: "k", Token: tok}})
				cancel()
				var stale *tokenstore.StaleError
				switch {
				case err == nil:
					grant.Release()
					mu.Lock()
					if acked.Less(tok) {
						acked = tok
					}
					mu.Unlock()
				case errors.As(err, &stale), errors.Is(err, tokenstore.ErrUnavailable):
				default:
					t.Errorf("Acquire: %v", err)
				}
			}
		})
	}
	wg.Wait()
	top := token(callers*rounds + 1)
	mustAcquire(t, s, tokenstore.Mark{Key: "other", Token: top})
	if rec, ok, err := s.Load(context.Background(), "k"); err != nil || (acked != tokenstore.Token{} && !ok) || rec.Highest.Less(acked) || top.Less(rec.Highest) {
		t.Fatalf("Load = %+v, %v, %v; want at least %v, which was acknowledged", rec, ok, err, acked)
	}
	// The store is as good as new for a caller that waits.
	mustAcquire(t, s, tokenstore.Mark{Key: "k", Token: top})
	wantHighest(t, s, "k", top)
}

func testClosed(t *testing.T, s tokenstore.Store) {
	mustAcquire(t, s, mark("k", 5))
	if err := s.Close(true); err != nil {
		t.Fatalf("Close: %v", err)
	}
	for _, n := range []uint64{4, 5, 6} {
		wantUnknown(t, acquire(s, mark("k", n)))
	}
	_, _, err := s.Load(context.Background(), "k")
	wantUnknown(t, err)
	s.Clear("k", token(5)) // must not panic
	if err := s.Close(false); err != nil {
		t.Fatalf("second Close: %v", err)
	}
}

// reopenChecks are the promises across the lives of a store.
var reopenChecks = []struct {
	name string
	run  func(t *testing.T, open func() tokenstore.Store)
}{
	{"records outlive a clean stop", func(t *testing.T, open func() tokenstore.Store) { testReopen(t, open, true) }},
	{"records outlive an unclean stop", func(t *testing.T, open func() tokenstore.Store) { testReopen(t, open, false) }},
	{"a marker of a clean stop counts once", testMarkerOnce},
}

func testReopen(t *testing.T, open func() tokenstore.Store, clean bool) {
	s := open()
	want := map[tokenstore.Key]tokenstore.Record{}
	for i := range uint64(50) {
		key := tokenstore.Key(fmt.Sprintf("k%d", i))
		m := tokenstore.Mark{Key: key, Token: tokenstore.Token{Epoch: i % 3, Major: i, Minor: i % 7}, Clear: i%2 == 0}
		if i%5 == 0 {
			m.Holder = fmt.Sprintf("holder %d", i)
		}
		mustAcquire(t, s, m)
		want[key] = load(t, s, key)
	}
	if err := s.Close(clean); err != nil {
		t.Fatalf("Close(%v): %v", clean, err)
	}
	s = open()
	if s.Recovered() == clean {
		t.Errorf("after Close(%v), Recovered = %v", clean, s.Recovered())
	}
	for key, rec := range want {
		wantSame(t, load(t, s, key), rec)
		lower := tokenstore.Mark{Key: key, Token: tokenstore.Token{}}
		if lower.Token.Less(rec.Highest) {
			wantStale(t, acquire(s, lower), tokenstore.StaleError{Key: key, Highest: rec.Highest})
		}
	}
}

// testMarkerOnce is story F: a marker that stayed would hide the crash of the
// next life.
func testMarkerOnce(t *testing.T, open func() tokenstore.Store) {
	for life, step := range []struct{ clean, recovered bool }{
		{true, false}, {true, false}, {false, false}, {false, true}, {true, true}, {false, false}, {true, true},
	} {
		s := open()
		if s.Recovered() != step.recovered {
			t.Fatalf("life %d: Recovered = %v, want %v", life, s.Recovered(), step.recovered)
		}
		if err := s.Close(step.clean); err != nil {
			t.Fatal(err)
		}
	}
}
