package postgres

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// BenchmarkRaise is a raise of a key that this proxy has raised before, up to
// the moment in which the write may be sent: the entry of the token before is
// deleted behind it.
func BenchmarkRaise(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprint(callers, " callers"), func(b *testing.B) {
			s := benchStore(b)
			var caller atomic.Int64
			each(b, callers, func() func() error {
				key, n := tokenstore.Key("key:"+strconv.FormatInt(caller.Add(1), 10)), uint64(0)
				return func() error { n++; return pass(b, s, mark(key, n)) }
			})
		})
	}
}

// BenchmarkFirst is the first token of a new key: nothing is older.
func BenchmarkFirst(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprint(callers, " callers"), func(b *testing.B) {
			s := benchStore(b)
			var n atomic.Int64
			each(b, callers, func() func() error {
				return func() error { return pass(b, s, mark(tokenstore.Key(fmt.Sprintf("key:%09d", n.Add(1))), 1)) }
			})
		})
	}
}

// BenchmarkEqual is an equal token through a live grant, which the database
// never hears of, and through the database, as the first of each proxy is.
func BenchmarkEqual(b *testing.B) {
	b.Run("live grant", func(b *testing.B) {
		s := benchStore(b)
		each(b, 1, func() func() error { return func() error { return pass(b, s, mark("k", 1)) } })
	})
	b.Run("acquired", func(b *testing.B) {
		backend := open(b, place(b, sharedServer(b)))
		b.Cleanup(func() { _ = backend.Close() })
		me, nonce := newID(), uint64(0)
		if err := backend.Begin(b.Context(), me, time.Hour); err != nil {
			b.Fatal(err)
		}
		each(b, 1, func() func() error {
			return func() error {
				nonce++
				_, err := backend.Acquire(b.Context(), me, []session.Want{{Mark: mark("k", 1), Nonce: nonce}})
				return err
			}
		})
	})
}

func benchStore(b *testing.B) *session.Store {
	return proxy(b, open(b, place(b, sharedServer(b))), session.Options{Linger: time.Second})
}

func pass(b *testing.B, s *session.Store, m tokenstore.Mark) error {
	g, err := s.Acquire(b.Context(), []tokenstore.Mark{m})
	if err != nil {
		return err
	}
	defer g.Release()
	return g.Drained(b.Context())
}

// each runs a step of its own for each caller.
func each(b *testing.B, callers int, step func() func() error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, callers)
	b.ResetTimer()
	for range callers {
		go func() {
			do := step()
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
