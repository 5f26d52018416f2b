package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// concurrentChecks are the promises to many callers at once. Each fails too
// where nothing was refused, since then it has shown nothing.
var concurrentChecks = []check{
	{"concurrent raises never lose the maximum", testMaximum},
	{"one holder wins an equal token", testOneHolder},
	{"overlapping marks of several keys stay whole", testOverlap},
}

func testMaximum(t *testing.T, s tokenstore.Store) {
	const callers, rounds, keys = 32, 30, 4
	var highest [keys]struct {
		sync.Mutex
		asked, acked tokenstore.Token
	}
	var recorded, stale atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 1))
			for r := range rounds {
				k := rng.IntN(keys)
				key := tokenstore.Key(fmt.Sprintf("k%d", k))
				tok := token(uint64(r*50 + rng.IntN(200)))
				h := &highest[k]
				h.Lock()
				if h.asked.Less(tok) {
					h.asked = tok
				}
				floor := h.acked // acknowledged before this call began
				h.Unlock()

				err := acquire(s, tokenstore.Mark{Key: key, Token: tok})
				var refused *tokenstore.StaleError
				switch {
				case err == nil:
					recorded.Add(1)
					if tok.Less(floor) {
						t.Errorf("%s: token %v was recorded after %v was acknowledged", key, tok, floor)
					}
					h.Lock()
					if h.acked.Less(tok) {
						h.acked = tok
					}
					h.Unlock()
				case errors.As(err, &refused):
					stale.Add(1)
					if !tok.Less(refused.Highest) {
						t.Errorf("%s: token %v is stale by %v", key, tok, refused.Highest)
					}
					tok = refused.Highest
				default:
					t.Errorf("%s: %v", key, err)
					return
				}
				// Whatever was told is on record for everybody from now on.
				if rec, ok, err := s.Load(context.Background(), key); err != nil || !ok || rec.Highest.Less(tok) {
					t.Errorf("%s: Load = %v, %v, %v after %v was told", key, rec.Highest, ok, err, tok)
				}
			}
		})
	}
	wg.Wait()
	for k := range highest {
		wantHighest(t, s, tokenstore.Key(fmt.Sprintf("k%d", k)), highest[k].asked)
	}
	if recorded.Load() == 0 || stale.Load() == 0 {
		t.Errorf("%d recorded, %d stale: this run shows nothing", recorded.Load(), stale.Load())
	}
}

func testOneHolder(t *testing.T, s tokenstore.Store) {
	const holders, rounds = 8, 10
	for n := range uint64(rounds) {
		var won, lost atomic.Int64
		var wg sync.WaitGroup
		for h := range holders {
			wg.Go(func() {
				err := acquire(s, tokenstore.Mark{Key: "k", Token: token(n), Holder: fmt.Sprint("holder ", h)})
				var collision *tokenstore.CollisionError
				switch {
				case err == nil:
					won.Add(1)
				case errors.As(err, &collision):
					lost.Add(1)
				default:
					t.Errorf("token %d: %v", n, err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || lost.Load() != holders-1 {
			t.Fatalf("token %d: %d holders won and %d lost, want 1 and %d", n, won.Load(), lost.Load(), holders-1)
		}
	}
}

// testOverlap raises two keys with one token each time, named in either
// order: they must never be seen apart for good, and nobody may wait for ever.
func testOverlap(t *testing.T, s tokenstore.Store) {
	const callers, rounds = 16, 20
	var stale atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 2))
			for r := range rounds {
				tok := uint64(r*20 + rng.IntN(60))
				marks := []tokenstore.Mark{mark("a", tok), mark("b", tok)}
				if c%2 == 0 {
					marks[0], marks[1] = marks[1], marks[0]
				}
				err := acquire(s, marks...)
				var refused *tokenstore.StaleError
				if errors.As(err, &refused) {
					stale.Add(1)
				} else if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if a, b := load(t, s, "a").Highest, load(t, s, "b").Highest; a != b {
		t.Errorf("highest of a is %v and of b %v: marks were torn apart", a, b)
	}
	if stale.Load() == 0 {
		t.Error("nothing was refused: this run shows nothing")
	}
}
