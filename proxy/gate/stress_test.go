package gate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
)

// witness stands at the upstream of one key: all that is in flight at a
// moment has one token, and it never goes down.
type witness struct {
	mu      sync.Mutex
	highest tokenstore.Token
	running map[tokenstore.Token]int
}

func (w *witness) begin(t tokenstore.Token) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.Less(w.highest) {
		return fmt.Errorf("token %v was admitted after %v", t, w.highest)
	}
	w.highest = t
	w.running[t]++
	if len(w.running) > 1 {
		return fmt.Errorf("tokens in flight together: %v", w.running)
	}
	return nil
}

func (w *witness) end(t tokenstore.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[t]--; w.running[t] == 0 {
		delete(w.running, t)
	}
}

// TestStress: many writers with one or two keys each, tokens around a moving
// maximum, writes that are lost from sight, clients that leave, and memory for
// next to no marks. It fails too when too little happened to show anything.
func TestStress(t *testing.T) {
	const writers, writes, keys = 64, 300, 6
	g, err := New(memory.New(), Options{Settle: 2 * time.Millisecond, CachedMarks: 1})
	if err != nil {
		t.Fatal(err)
	}
	var witnesses [keys]*witness
	for i := range witnesses {
		witnesses[i] = &witness{running: map[tokenstore.Token]int{}}
	}
	var admitted, stale, overtaken, waited, left, newest atomic.Int64
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(n)))
			for range writes {
				ctx, cancel := context.WithCancel(context.Background())
				if rnd.IntN(10) == 0 {
					time.AfterFunc(time.Duration(rnd.IntN(1000))*time.Microsecond, cancel)
				}
				token := tokenstore.Token{Major: uint64(max(0, newest.Load()+rnd.Int64N(5)-3))}
				newest.Store(max(newest.Load(), int64(token.Major)))
				at := []int{rnd.IntN(keys)}
				if other := rnd.IntN(keys); rnd.IntN(4) == 0 && other != at[0] {
					at = append(at, other)
				}
				var claims []Claim
				for _, i := range at {
					claims = append(claims, Claim{Key: tokenstore.Key(fmt.Sprint("key ", i)), Token: token})
				}
				ticket := new(Ticket)
				err := g.Enter(ctx, Request{Claims: claims, DrainTimeout: time.Minute, Settle: 2 * time.Millisecond}, ticket)
				cancel()
				var se *StaleError
				switch {
				case err == nil:
					admitted.Add(1)
					if ticket.Waited().Total > 0 {
						waited.Add(1)
					}
				case errors.As(err, &se):
					stale.Add(1)
					if se.Overtaken {
						overtaken.Add(1)
					}
					continue
				case errors.Is(err, ErrLeft):
					left.Add(1)
					continue
				default:
					t.Error(err)
					return
				}
				for _, i := range at {
					if err := witnesses[i].begin(token); err != nil {
						t.Errorf("key %d: %v", i, err)
					}
				}
				time.Sleep(time.Duration(rnd.IntN(200)) * time.Microsecond)
				for _, i := range at {
					witnesses[i].end(token)
				}
				if rnd.IntN(50) == 0 {
					ticket.Unsettle("stress")
				} else {
					ticket.Settle()
				}
			}
		})
	}
	all.Wait()
	g.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.Idle(ctx); err != nil {
		t.Errorf("%v: %+v", err, g.Counts())
	}
	t.Logf("admitted %d (waited %d), stale %d (overtaken %d), left %d", admitted.Load(), waited.Load(), stale.Load(), overtaken.Load(), left.Load())
	for what, n := range map[string]int64{"admitted": admitted.Load(), "waited": waited.Load(), "stale": stale.Load(), "overtaken": overtaken.Load(), "left": left.Load()} {
		if n < 10 {
			t.Errorf("only %d writes were %s: this shows nothing", n, what)
		}
	}
}
