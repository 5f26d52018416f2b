package embedded

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// fill makes a store with keys k0000000 and up, as fast as it goes.
func fill(t testing.TB, s *Store, keys int) {
	t.Helper()
	var wg sync.WaitGroup
	next := atomic.Int64{}
	for range 64 {
		wg.Go(func() {
			for {
				from := next.Add(100) - 100
				if from >= int64(keys) {
					return
				}
				var marks []tokenstore.Mark
				for i := from; i < min(from+100, int64(keys)); i++ {
					marks = append(marks, mark(tokenstore.Key(fmt.Sprintf("k%07d", i)), 1))
				}
				if _, err := s.Acquire(t.Context(), marks); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// All pages are read while others raise, make and fold: every key that was there
// all the time is told of, once, in order.
func TestListWhileRaising(t *testing.T) {
	s := openWith(t, t.TempDir(), tuning{foldAt: 50, foldChunk: 10}, hooks{})
	defer func() { _ = s.Close(false) }()
	const keys = 500
	fill(t, s, keys)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := uint64(2); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				key := tokenstore.Key(fmt.Sprintf("k%07d", n*17%keys))
				_, err := s.Acquire(t.Context(), []tokenstore.Mark{mark(key, n), mark(tokenstore.Key(fmt.Sprintf("n%d-%d", w, n)), 1)})
				if stale := (*tokenstore.StaleError)(nil); err != nil && !errors.As(err, &stale) {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		got := listed(t, s, 37)
		for i := range keys {
			if _, ok := got[tokenstore.Key(fmt.Sprintf("k%07d", i))]; !ok {
				t.Fatalf("key %d is missing among %d", i, len(got))
			}
		}
	}
	close(stop)
	wg.Wait()
}

func TestListDamaged(t *testing.T) {
	s := openWith(t, t.TempDir(), tuning{foldAt: 1}, hooks{})
	acquire(t, s, mark("a", 1))
	acquire(t, s, mark("b", 1))
	waitFolded(t, s)
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	edit(t, s.dir, func(keys *bolt.Bucket) error { return keys.Put([]byte("a"), []byte("no record")) })
	s = open(t, s.dir)
	defer func() { _ = s.Close(false) }()
	page, _, err := s.List(t.Context(), "", "", 0)
	if err != nil || len(page) != 2 || page[0].Damaged == nil || page[0].Key != "a" || page[1].Damaged != nil {
		t.Errorf("List = %+v, %v", page, err)
	}
}

// BenchmarkListMillion pages through a million keys while one caller raises: the
// longest raise says how much a page holds the writers.
func BenchmarkListMillion(b *testing.B) {
	s := openWith(b, b.TempDir(), tuning{}, hooks{})
	defer func() { _ = s.Close(false) }()
	const keys = 1_000_000
	fill(b, s, keys)
	token := uint64(0)
	longest := func(stop <-chan struct{}) (most time.Duration, n int) {
		for ; ; n++ {
			token++
			select {
			case <-stop:
				return most, n
			default:
			}
			start := time.Now()
			acquire(b, s, mark(tokenstore.Key(fmt.Sprintf("raised%d", n%1000)), token))
			most = max(most, time.Since(start))
		}
	}
	alone := make(chan struct{})
	time.AfterFunc(2*time.Second, func() { close(alone) })
	before, n := longest(alone)
	b.ResetTimer()
	for range b.N {
		stop, done := make(chan struct{}), make(chan struct{})
		start := time.Now()
		go func() {
			defer close(done)
			most, n := longest(stop)
			b.ReportMetric(float64(most.Microseconds()), "µs-longest-raise")
			b.ReportMetric(float64(n)/time.Since(start).Seconds(), "raises/s")
		}()
		if got := len(listed(b, s, 1000)); got < keys {
			b.Fatalf("%d keys", got)
		}
		close(stop)
		<-done
	}
	b.StopTimer()
	b.ReportMetric(float64(before.Microseconds()), "µs-longest-raise-alone")
	b.ReportMetric(float64(n)/2, "raises/s-alone")
}
