package etcd_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// benchStore opens the store of one proxy and counts its calls of etcd.
func benchStore(b *testing.B) (s *session.Store, acquires *atomic.Int64) {
	acquires = new(atomic.Int64)
	return openStore(b, open(b, place(b, server(b))), session.Options{Linger: time.Second, Observe: session.Observer{
		Op: func(op session.Op, _ time.Duration, _ error) {
			if op == session.OpAcquire {
				acquires.Add(1)
			}
		},
	}}), acquires
}

func benchAdmit(b *testing.B, s *session.Store, m tokenstore.Mark) {
	g, err := s.Acquire(context.Background(), []tokenstore.Mark{m})
	if err == nil {
		err = g.Drained(context.Background())
		g.Release()
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkRaise is a higher token at each write, on a key for each caller.
// What the last write left is given back beside it.
func BenchmarkRaise(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprint(callers, " callers"), func(b *testing.B) {
			s, acquires := benchStore(b)
			var name, n atomic.Int64
			left := int64(b.N)
			done := make(chan struct{})
			b.ResetTimer()
			for range callers {
				go func() {
					defer func() { done <- struct{}{} }()
					key := tokenstore.Key(fmt.Sprint("accounts:", name.Add(1)))
					for token := uint64(1); n.Add(1) <= left; token++ {
						benchAdmit(b, s, mark(key, token))
					}
				}()
			}
			for range callers {
				<-done
			}
			b.StopTimer()
			b.ReportMetric(float64(acquires.Load())/float64(b.N), "transactions/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "raises/s")
		})
	}
}

// BenchmarkRoundTrip is a raise of a new key, and the smallest write of etcd's
// own, for comparison.
func BenchmarkRoundTrip(b *testing.B) {
	s := server(b)
	o := place(b, s)
	raw := rawClient(b, s)
	b.Run("put", func(b *testing.B) {
		for b.Loop() {
			if _, err := raw.Put(b.Context(), o.Prefix+"opened", "x"); err != nil {
				b.Fatal(err)
			}
		}
	})
	e := open(b, o)
	defer e.Close()
	id, stop := begin(b, e, nil)
	defer stop()
	n := 0
	b.Run("acquire of one key", func(b *testing.B) {
		for b.Loop() {
			n++
			if _, err := acquire(e, id, mark(tokenstore.Key(fmt.Sprint("new", n)), 1)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("acquire of two keys", func(b *testing.B) {
		for b.Loop() {
			n++
			if _, err := acquire(e, id, mark(tokenstore.Key(fmt.Sprint("new", n)), 1), mark(tokenstore.Key(fmt.Sprint("also", n)), 1)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("keepalive", func(b *testing.B) {
		for b.Loop() {
			if _, err := e.KeepAlive(b.Context(), id, time.Minute); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEqual is an equal token through a sticky grant.
func BenchmarkEqual(b *testing.B) {
	s, _ := benchStore(b)
	m := mark("accounts:42", 1)
	g := mustAdmit(b, s, m)
	defer g.Release()
	b.ReportAllocs()
	for b.Loop() {
		benchAdmit(b, s, m)
	}
}
