package redis_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// BenchmarkRaise is a raise with nothing older elsewhere, of 10,000 keys. The
// server syncs every write, or every second.
func BenchmarkRaise(b *testing.B) {
	for _, fsync := range []string{"always", "everysec"} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", fsync, callers), func(b *testing.B) {
				s := openStore(b, startServer(b, "--appendfsync", fsync).store())
				var n atomic.Uint64
				b.SetParallelism((callers + 1) / 2) // times GOMAXPROCS, which the figures name
				if callers == 1 {
					for b.Loop() {
						raise(b, s, n.Add(1))
					}
				} else {
					b.RunParallel(func(p *testing.PB) {
						for p.Next() {
							raise(b, s, n.Add(1))
						}
					})
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "raises/s")
			})
		}
	}
}

func raise(b *testing.B, s *session.Store, n uint64) {
	ctx := b.Context()
	g, err := s.Acquire(ctx, []tokenstore.Mark{mark(tokenstore.Key(fmt.Sprintf("accounts:%06d", n%10_000)), n)})
	if err == nil {
		err = g.Drained(ctx)
		g.Release()
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkEqual is a write with the token that this proxy has already.
func BenchmarkEqual(b *testing.B) {
	s := openStore(b, startServer(b).store())
	mustAdmit(b, s, mark("k", 1)).Release()
	ctx, marks := b.Context(), []tokenstore.Mark{mark("k", 1)}
	for b.Loop() {
		g, err := s.Acquire(ctx, marks)
		if err != nil || g.Drained(ctx) != nil || !g.MaySend() {
			b.Fatal("it was not admitted")
		}
		g.Release()
	}
}
