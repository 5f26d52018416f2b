package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
)

func grantOf(p *proxy, n uint64) tokenstore.Grant {
	p.r.t.Helper()
	g, err := p.store.Acquire(p.r.t.Context(), []tokenstore.Mark{{Key: "k", Token: tokenstore.Token{Major: n}}})
	if err != nil {
		p.r.t.Fatal(err)
	}
	return g
}

// forget tries to forget k as it is now.
func forget(p *proxy) error {
	p.r.t.Helper()
	rec, _, err := p.store.Load(p.r.t.Context(), "k")
	if err != nil {
		p.r.t.Fatal(err)
	}
	return p.store.Forget(p.r.t.Context(), "k", rec)
}

func wantInUse(r *rig, err error) {
	r.t.Helper()
	used := (*tokenstore.InUseError)(nil)
	if _, ok := r.engine.Record("k"); !errors.As(err, &used) || !ok {
		r.t.Errorf("Forget = %v, record %v; want an *InUseError", err, ok)
	}
}

// What this proxy holds and does not use is given back; what it uses, and what
// another proxy holds, keeps the key.
func TestForget(t *testing.T) {
	inTime(t, func(r *rig) {
		a, b := r.proxy("a"), r.proxy("b")
		g := grantOf(a, 1)
		wantInUse(r, forget(a))
		wantInUse(r, forget(b))
		g.Release()
		wantInUse(r, forget(b)) // idle, and b cannot know
		if err := forget(a); err != nil {
			t.Fatal(err)
		}
		if _, ok := r.engine.Record("k"); ok || len(r.engine.Open("k")) > 0 {
			t.Error("the record, or an entry, is there")
		}
		// It begins anew, with any token, at both.
		grantOf(b, 0).Release()
		grantOf(a, 1).Release()
	})
}

// A removal that comes late, after its caller gave up, takes nothing away under
// a write: its entry is there.
func TestForgetLate(t *testing.T) {
	for _, raised := range []bool{false, true} {
		inTime(t, func(r *rig) {
			a := r.proxy("a")
			grantOf(a, 1).Release()
			a.port.Fates(func(op session.Op) (f sessiontest.Fate) {
				if op == session.OpForget {
					f.Late = 20 * time.Second
				}
				return f
			})
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
			rec, _, err := a.store.Load(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			if err := a.store.Forget(ctx, "k", rec); !errors.Is(err, tokenstore.ErrUnavailable) {
				t.Errorf("Forget = %v", err)
			}
			cancel()
			a.port.Fates(nil)
			n := uint64(1) // the very token of the record
			if raised {
				n = 2
			}
			g := grantOf(a, n)
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if rec, ok := r.engine.Record("k"); !ok || rec.Highest.Major != n || !g.MaySend() {
				t.Errorf("the record under a write: %+v, %v", rec, ok)
			}
			g.Release()
		})
	}
}
