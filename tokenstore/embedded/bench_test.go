package embedded

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

const benchKeys = 100_000

// BenchmarkRaises compares the raises a second of the store with those of a
// raw log that appends the same records and syncs, with the same group commit.
// Both run in turns, so that the ratio holds on a busy machine, and the time
// that the store's folds take counts in its own turns. The log forgets what it
// has: it can refuse nothing, find nothing, and only grows.
func BenchmarkRaises(b *testing.B) {
	dir := b.TempDir()
	s := open(b, filepath.Join(dir, "store"))
	for i := 0; i < benchKeys; i += maxBatch {
		var marks []tokenstore.Mark
		for k := i; k < i+maxBatch; k++ {
			marks = append(marks, mark(benchKey(k), 1))
		}
		acquire(b, s, marks...)
	}
	l := openLog(b, filepath.Join(dir, "log"))
	var next atomic.Uint64
	next.Store(1)
	for _, callers := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var store, log rate
			for b.Loop() {
				for range 5 {
					n, d := turn(callers, &next, s.group)
					began := time.Now()
					waitFolded(b, s)
					store.add(n, d+time.Since(began))
					log.add(turn(callers, &next, l))
				}
			}
			b.ReportMetric(store.perSecond(), "raises/s")
			b.ReportMetric(log.perSecond(), "log/s")
			b.ReportMetric(store.perSecond()/log.perSecond(), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func benchKey(k int) tokenstore.Key { return tokenstore.Key(fmt.Sprintf("account:%012d", k)) }

type rate struct {
	n int64
	d time.Duration
}

func (r *rate) add(n int64, d time.Duration) { r.n += n; r.d += d }
func (r *rate) perSecond() float64           { return float64(r.n) / r.d.Seconds() }

// turn has callers raise random keys for a while.
func turn(callers int, next *atomic.Uint64, g *group) (n int64, d time.Duration) {
	ctx := context.Background()
	began := time.Now()
	until := began.Add(60 * time.Millisecond)
	var done atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for time.Now().Before(until) {
				m := [1]tokenstore.Mark{mark(benchKey(rand.IntN(benchKeys)), next.Add(1))}
				// Two callers that drew the same key may cross; the lower is refused.
				if err := g.do(ctx, m[:]); err == nil {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return done.Load(), time.Since(began)
}

// openLog is the raw log, behind the group commit of the store.
func openLog(b *testing.B, path string) *group {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	g := startGroup(func(batch []*request) {
		buf = buf[:0]
		for _, r := range batch {
			for _, m := range r.marks {
				buf = append(buf, byte(len(m.Key)))
				buf = append(buf, m.Key...)
				buf = append(buf, encodeRecord([]byte(m.Key), tokenstore.Record{Highest: m.Token, RaisedAt: time.Now()})...)
			}
		}
		_, err := f.Write(buf)
		if err == nil {
			err = fdatasync(f)
		}
		for _, r := range batch {
			r.done <- err
		}
	})
	b.Cleanup(func() { g.stop(); _ = f.Close() })
	return g
}
