package session_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestLeaser(t *testing.T) {
	storetest.RunLeases(t, func(t *testing.T) storetest.LeaseStore {
		s, err := session.Open(t.Context(), sessiontest.NewEngine().Port(), session.Options{Linger: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func asked(id string) tokenstore.Lease {
	return tokenstore.Lease{ID: id, Holder: "h", TTL: time.Second, GrantedAt: time.UnixMilli(1_700_000_000_123)}
}

func grantLease(t *testing.T, s *session.Store, key tokenstore.Key, was tokenstore.Lease, id string) tokenstore.Lease {
	t.Helper()
	l, err := s.GrantLease(t.Context(), key, was, asked(id), 0)
	if err != nil {
		t.Fatalf("GrantLease(%s): %v", key, err)
	}
	return l
}

// TestLeaseTrips: what is believed rightly takes one round trip, and a refusal
// never rests on what is only believed.
func TestLeaseTrips(t *testing.T) {
	inTime(t, func(r *rig) {
		t := r.t
		a, b := r.proxy("a"), r.proxy("b")
		trips := func(p *proxy, want int, what string, f func()) {
			t.Helper()
			before := p.port.Calls(session.OpLease)
			f()
			if got := p.port.Calls(session.OpLease) - before; got != want {
				t.Errorf("%s takes %d trips, want %d", what, got, want)
			}
		}
		var l tokenstore.Lease
		trips(a, 2, "the first grant, after a look", func() { l = grantLease(t, a.store, "k", tokenstore.Lease{}, "1") })
		trips(a, 1, "a grant", func() { l = grantLease(t, a.store, "k", l, "2") })
		trips(a, 1, "a renewal", func() {
			var err error
			if l, err = a.store.RenewLease(t.Context(), "k", l, time.Hour); err != nil {
				t.Error(err)
			}
		})
		trips(b, 2, "the first grant elsewhere", func() { grantLease(t, b.store, "other", tokenstore.Lease{}, "1") })
		trips(a, 2, "a grant when the counter has moved", func() { l = grantLease(t, a.store, "k", l, "3") })
		trips(a, 1, "an end", func() {
			if err := a.store.EndLease(t.Context(), "k", l); err != nil {
				t.Error(err)
			}
		})
		trips(a, 1, "a grant that is refused", func() {
			_, err := a.store.GrantLease(t.Context(), "other", tokenstore.Lease{}, asked("x"), 0)
			var refused *tokenstore.LeaseError
			if !errors.As(err, &refused) || refused.Current.ID != "1" {
				t.Errorf("error = %v", err)
			}
		})
		trips(a, 2, "a renewal by one that has the ID and the beat alone", func() {
			if _, err := a.store.RenewLease(t.Context(), "other", tokenstore.Lease{ID: "1"}, 1); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestLeaseWithoutSession: leases go on at a proxy whose session is over: each
// change is the store's own decision. What needs a session is the fence.
func TestLeaseWithoutSession(t *testing.T) {
	inTime(t, func(r *rig) {
		t := r.t
		a := r.proxy("a")
		l := grantLease(t, a.store, "k", tokenstore.Lease{}, "1")
		a.port.Fates(func(op session.Op) sessiontest.Fate {
			if op == session.OpKeepAlive || op == session.OpBegin {
				return sessiontest.Fate{Never: true}
			}
			return sessiontest.Fate{}
		})
		r.at(ttl)
		if _, err := a.store.Acquire(t.Context(), []tokenstore.Mark{{Key: "k", Token: l.Token}}); !errors.Is(err, tokenstore.ErrUnavailable) {
			t.Fatalf("Acquire: %v; the session is not over, and this shows nothing", err)
		}
		if _, err := a.store.RenewLease(t.Context(), "k", l, time.Minute); err != nil {
			t.Errorf("RenewLease: %v", err)
		}
	})
}

// TestLeaseUnknown: a change whose answer is lost is told as unknown, and never
// as a refusal. Whether it was made is found by a look.
func TestLeaseUnknown(t *testing.T) {
	inTime(t, func(r *rig) {
		t := r.t
		a, b := r.proxy("a"), r.proxy("b")
		first := grantLease(t, a.store, "k", tokenstore.Lease{}, "1")
		a.port.Fates(func(op session.Op) sessiontest.Fate { return sessiontest.Fate{Lost: op == session.OpLease} })
		_, err := a.store.GrantLease(t.Context(), "k", first, asked("2"), 0)
		var refused *tokenstore.LeaseError
		if !errors.Is(err, tokenstore.ErrUnavailable) || errors.As(err, &refused) {
			t.Errorf("error = %v, want that nothing is known", err)
		}
		a.port.Fates(nil)
		if l, err := a.store.Lease(t.Context(), "k"); err != nil || l.ID != "2" {
			t.Errorf("Lease = %+v, %v", l, err)
		}
		if l := grantLease(t, b.store, "other", tokenstore.Lease{}, "3"); l.Token.Major != first.Token.Major+2 {
			t.Errorf("token %v after an unknown grant over %v", l.Token, first.Token)
		}
	})
}

// TestLeaseChanges: other proxies hear of a grant and an end at once.
func TestLeaseChanges(t *testing.T) {
	inTime(t, func(r *rig) {
		t := r.t
		a, b := r.proxy("a"), r.proxy("b")
		heard := func(what string) {
			t.Helper()
			select {
			case key := <-b.store.LeaseChanges():
				if key != "k" {
					t.Errorf("%s: heard of %s", what, key)
				}
			case <-time.After(time.Second):
				t.Errorf("%s is not heard of", what)
			}
		}
		l := grantLease(t, a.store, "k", tokenstore.Lease{}, "1")
		heard("a grant")
		if err := a.store.EndLease(t.Context(), "k", l); err != nil {
			t.Fatal(err)
		}
		heard("an end")
	})
}

// TestLeaseValue: what stands in a store reads as it was written, or not at
// all.
func TestLeaseValue(t *testing.T) {
	for _, l := range []tokenstore.Lease{
		{}, asked("i"),
		{ID: strings.Repeat("\xff", tokenstore.MaxLeaseID), Holder: strings.Repeat("\x00", tokenstore.MaxHolder), TTL: math.MaxInt64, Beat: math.MaxUint64,
			Token: tokenstore.Token{Epoch: 1, Major: math.MaxUint64, Minor: 3}},
	} {
		b := session.EncodeLease("k", l)
		got, err := session.DecodeLease("k", b)
		if err != nil || got != l {
			t.Errorf("%+v reads as %+v, %v", l, got, err)
		}
		for n := range b {
			flipped := bytes.Clone(b)
			flipped[n] ^= 1
			for what, bad := range map[string][]byte{"flipped": flipped, "cut": b[:n]} {
				if _, err := session.DecodeLease("k", bad); err == nil && len(bad) > 0 {
					t.Errorf("%s at %d, it reads as a lease", what, n)
				}
			}
		}
		if _, err := session.DecodeLease("other", b); err == nil && l.Held() {
			t.Error("it reads as another key's")
		}
	}
}

// TestLeasesOfSeveralProxies: tokens are unique over all proxies, and one that
// is asked for when another was told of is above it.
func TestLeasesOfSeveralProxies(t *testing.T) {
	e := sessiontest.NewEngine()
	var mu sync.Mutex
	highest, all := uint64(0), map[uint64]bool{}
	var wg sync.WaitGroup
	for p := range 3 {
		s, err := session.Open(t.Context(), e.Port(), session.Options{Linger: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close(true) }()
		for w := range 4 {
			wg.Go(func() {
				key, was := tokenstore.Key(fmt.Sprint(p, w)), tokenstore.Lease{}
				for n := range 50 {
					mu.Lock()
					floor := highest
					mu.Unlock()
					var err error
					if was, err = s.GrantLease(t.Context(), key, was, asked(fmt.Sprint(n)), 0); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if all[was.Token.Major] || was.Token.Major <= floor {
						t.Errorf("token %v (granted before: %v) after %d was told of", was.Token, all[was.Token.Major], floor)
					}
					all[was.Token.Major], highest = true, max(highest, was.Token.Major)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if len(all) != 600 {
		t.Errorf("%d tokens", len(all))
	}
}
