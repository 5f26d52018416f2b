package session_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
)

// BenchmarkSticky is an equal-token write through a live grant.
func BenchmarkSticky(b *testing.B) {
	s, err := session.Open(b.Context(), sessiontest.NewEngine().Port(), session.Options{Linger: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close(true) }()
	marks, ctx := []tokenstore.Mark{{Key: "accounts:42", Token: tok(1)}}, context.Background()
	b.ReportAllocs()
	for b.Loop() {
		g, err := s.Acquire(ctx, marks)
		if err != nil || g.Drained(ctx) != nil || !g.MaySend() {
			b.Fatal("it was not admitted")
		}
		g.Release()
	}
}

// BenchmarkStickyKeys is the same over many keys at once, as the gate asks.
func BenchmarkStickyKeys(b *testing.B) {
	s, err := session.Open(b.Context(), sessiontest.NewEngine().Port(), session.Options{Linger: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close(true) }()
	marks := make([]tokenstore.Mark, 1000)
	for i := range marks {
		marks[i] = tokenstore.Mark{Key: tokenstore.Key(fmt.Sprintf("accounts:%d", i)), Token: tok(1)}
		g, err := s.Acquire(b.Context(), marks[i:i+1])
		if err != nil {
			b.Fatal(err)
		}
		g.Release()
	}
	var next atomic.Uint32
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g, ok := s.Held(marks[next.Add(1)%uint32(len(marks))])
			if !ok || !g.MaySend() {
				b.Error("it was not admitted")
				return
			}
			g.Release()
		}
	})
}

// forgetful is a backend that takes every raise and keeps nothing, so that what
// is measured is the Store's.
type forgetful struct{ *sessiontest.Port }

func (forgetful) Acquire(context.Context, session.ID, []session.Want) (session.Acquired, error) {
	return session.Acquired{}, nil
}

// BenchmarkGrants is what one idle grant costs, of 100,000: memory, and the
// sweep that looks for those to give back.
func BenchmarkGrants(b *testing.B) {
	const grants = 100_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := heap()
		s, err := session.Open(b.Context(), forgetful{sessiontest.NewEngine().Port()}, session.Options{Linger: time.Second})
		if err != nil {
			b.Fatal(err)
		}
		for n := range grants {
			g, err := s.Acquire(b.Context(), []tokenstore.Mark{{Key: tokenstore.Key(fmt.Sprintf("accounts:%09d", n)), Token: tok(1)}})
			if err != nil {
				b.Fatal(err)
			}
			g.Release()
		}
		if n := s.Grants(); n != grants {
			b.Fatalf("%d grants are held", n)
		}
		b.ReportMetric(float64(heap()-before)/grants, "bytes/grant")
		began := time.Now()
		if err := s.Close(true); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/close")
	}
}
