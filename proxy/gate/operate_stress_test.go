package gate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
)

// slowly is a store whose steps others come in between of.
type slowly struct{ *memory.Store }

func pause() {
	for range rand.IntN(4) {
		runtime.Gosched()
	}
}

func (s slowly) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, bool, error) {
	pause()
	defer pause()
	return s.Store.Load(ctx, key)
}

func (s slowly) Acquire(ctx context.Context, marks []tokenstore.Mark) (tokenstore.Grant, error) {
	pause()
	defer pause()
	return s.Store.Acquire(ctx, marks)
}

func (s slowly) Forget(ctx context.Context, key tokenstore.Key, was tokenstore.Record) error {
	pause()
	defer pause()
	return s.Store.Forget(ctx, key, was)
}

// While keys are written, forgotten and checked all the time, every write in
// flight has the token of all others in flight on its key, and a record that a
// crash would find.
func TestForgetStress(t *testing.T) {
	store := slowly{memory.New()}
	g, err := New(store, Options{Settle: time.Minute, CachedMarks: 64})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 300 // more than rest in the table: some are evicted
	var mu sync.Mutex
	open := map[tokenstore.Key]map[uint64]int{}
	var sent, stale, forgot, kept atomic.Int64
	var writers, forgetters sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for range 1500 {
				key := tokenstore.Key(fmt.Sprint("k", rnd.IntN(3)*rnd.IntN(keys/3)))
				n := uint64(rnd.IntN(5))
				r := Request{Claims: []Claim{{Key: key, Token: tok(n)}}, DrainTimeout: time.Minute, Settle: time.Minute}
				if rnd.IntN(4) == 0 {
					_ = g.Check(context.Background(), r.Claims, time.Minute, new(Ticket))
					continue
				}
				var ticket Ticket
				if err := g.Enter(context.Background(), r, &ticket); err != nil {
					if refused := (*StaleError)(nil); !errors.As(err, &refused) {
						t.Error(err)
					}
					stale.Add(1)
					continue
				}
				mu.Lock()
				if open[key] == nil {
					open[key] = map[uint64]int{}
				}
				open[key][n]++
				if len(open[key]) > 1 {
					t.Errorf("in flight on %s at once: %v", key, open[key])
				}
				mu.Unlock()
				pause()
				if rec, ok, err := store.Store.Load(context.Background(), key); err != nil || !ok || rec.Highest.Less(tok(n)) {
					t.Errorf("token %d is in flight on %s, and the record is %+v, %v, %v", n, key, rec, ok, err)
				}
				mu.Lock()
				if open[key][n]--; open[key][n] == 0 {
					delete(open[key], n)
				}
				mu.Unlock()
				ticket.Settle()
				sent.Add(1)
			}
		})
	}
	stop := make(chan struct{})
	for range 2 {
		forgetters.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				f, err := g.Forget(context.Background(), tokenstore.Key(fmt.Sprint("k", rand.IntN(3)*rand.IntN(keys/3))), nil)
				switch used := (*tokenstore.InUseError)(nil); {
				case errors.As(err, &used):
					kept.Add(1)
				case err != nil:
					t.Error(err)
				case f.Exists:
					forgot.Add(1)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	forgetters.Wait()
	if sent.Load() < 1000 || stale.Load() < 100 || forgot.Load() < 100 || kept.Load() < 10 {
		t.Errorf("%d sent, %d stale, %d forgotten, %d kept: this has shown nothing", sent.Load(), stale.Load(), forgot.Load(), kept.Load())
	}
	t.Logf("%d sent, %d stale, %d forgotten, %d kept", sent.Load(), stale.Load(), forgot.Load(), kept.Load())
}
