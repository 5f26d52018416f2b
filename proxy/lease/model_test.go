package lease

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
)

// service is the lock service as an article would print it.
type service struct {
	token, holder uint64 // holder is the token of who has it, 0 for nobody
	ttl, expires  time.Duration
}

func (s *service) acquire(now, ttl time.Duration) (token uint64, ok bool) {
	if s.holds(s.holder, now) {
		return 0, false
	}
	s.token++
	s.holder, s.ttl, s.expires = s.token, ttl, now+ttl
	return s.token, true
}

func (s *service) holds(token uint64, now time.Duration) bool {
	return token != 0 && s.holder == token && now < s.expires
}

// hand is a clock that the test turns.
type hand struct{ atomic.Int64 }

func (h *hand) now() time.Duration { return time.Duration(h.Load()) }

// world is issuers over one store, what was granted, and who may believe that he
// holds the lease.
type world struct {
	*rapid.T
	store   *table
	clock   hand
	issuers []*Issuer
	grants  []Held
	until   []time.Duration // to when the holder of each may believe that he has it
	renewed []time.Duration // when each was granted or renewed last
}

func newWorld(t *rapid.T, shared bool, issuers int) *world {
	w := &world{T: t, store: &table{Store: memory.New(), shared: shared}}
	for range issuers {
		w.issuers = append(w.issuers, w.open())
	}
	return w
}

func (w *world) open() *Issuer {
	i, err := New(w.Context(), Options{Store: w.store.seat(), Clock: w.clock.now, DefaultTTL: time.Second, MaxTTL: time.Hour,
		Owners: func(tokenstore.Key) []Owner { return nil }})
	if err != nil {
		w.Fatal(err)
	}
	return i
}

func (w *world) close() {
	for _, i := range w.issuers {
		i.Close()
	}
}

func (w *world) issuer() *Issuer {
	return w.issuers[rapid.IntRange(0, len(w.issuers)-1).Draw(w.T, "issuer")]
}

var ttls = rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 200 * time.Millisecond, time.Second})

// acquire asks for the lease, and checks what is promised whoever grants it.
func (w *world) acquire(i *Issuer, ttl time.Duration) (token uint64, ok bool) {
	h, err := i.Acquire(w.Context(), Request{Key: key, Holder: "x", TTL: ttl})
	var held *HeldError
	if errors.As(err, &held) {
		return 0, false
	}
	if err != nil {
		w.Fatal(err)
	}
	now := w.clock.now()
	for n, g := range w.grants {
		if now < w.until[n] {
			w.Fatalf("token %v is granted at %v while the holder of %v may believe to have the lease until %v", h.Token, now, g.Token, w.until[n])
		}
		if g.Token.Compare(h.Token) >= 0 || g.ID == h.ID {
			w.Fatalf("%+v behind %+v", h, g)
		}
	}
	if h.Left > ttl {
		w.Fatalf("it lives %v of %v", h.Left, ttl)
	}
	w.grants, w.until, w.renewed = append(w.grants, h), append(w.until, now+h.Left), append(w.renewed, now)
	return h.Token.Major, true
}

// old is one of the leases that were ever granted; mostly the last one.
func (w *world) old() int {
	if rapid.IntRange(0, 3).Draw(w.T, "recent") > 0 {
		return len(w.grants) - 1
	}
	return rapid.IntRange(0, len(w.grants)-1).Draw(w.T, "lease")
}

func (w *world) renew(i *Issuer, n int, ttl time.Duration) bool {
	h, err := i.Renew(w.Context(), key, w.grants[n].ID, ttl)
	if errors.Is(err, ErrLost) {
		return false
	}
	if err != nil {
		w.Fatal(err)
	}
	if n != len(w.grants)-1 {
		w.Fatalf("token %v is renewed behind %v", h.Token, w.grants[len(w.grants)-1].Token)
	}
	w.until[n], w.renewed[n] = w.clock.now()+h.Left, w.clock.now()
	w.grants[n].TTL = h.TTL
	return true
}

func (w *world) release(i *Issuer, n int) bool {
	err := i.Release(w.Context(), key, w.grants[n].ID)
	if errors.Is(err, ErrLost) {
		return false
	}
	if err != nil {
		w.Fatal(err)
	}
	w.until[n] = 0
	return true
}

func (w *world) pass(*rapid.T) {
	w.clock.Add(int64(rapid.SampledFrom([]time.Duration{1, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, time.Second}).Draw(w.T, "passes")))
}

// One issuer over a store of its own does what the article's does: neither more
// nor less.
func TestIssuerIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false, 1)
		defer w.close()
		var model service
		w.acquire(w.issuers[0], time.Second)
		model.acquire(0, time.Second)
		check := func(what string, got, want any) {
			if got != want {
				t.Fatalf("%s at %v: %v, want %v", what, w.clock.now(), got, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"pass": w.pass,
			"acquire": func(*rapid.T) {
				ttl := ttls.Draw(t, "ttl")
				token, ok := w.acquire(w.issuers[0], ttl)
				wantToken, want := model.acquire(w.clock.now(), ttl)
				check("acquire", fmt.Sprint(token, ok), fmt.Sprint(wantToken, want))
			},
			"renew": func(*rapid.T) {
				n := w.old()
				ttl := rapid.SampledFrom([]time.Duration{0, 0, time.Second}).Draw(t, "ttl")
				want := model.holds(w.grants[n].Token.Major, w.clock.now())
				check("renew", w.renew(w.issuers[0], n, ttl), want)
				if want {
					if ttl > 0 {
						model.ttl = ttl
					}
					model.expires = w.clock.now() + model.ttl
				}
			},
			"release": func(*rapid.T) {
				n := w.old()
				want := model.holds(w.grants[n].Token.Major, w.clock.now())
				check("release", w.release(w.issuers[0], n), want)
				if want {
					model.holder = 0
				}
			},
			"restart": func(*rapid.T) {
				w.issuers[0].Close()
				w.issuers[0] = w.open()
				// What is in the store lives again: nobody can tell when it was renewed.
				l, err := w.store.Store.Lease(w.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				model.holder, model.ttl, model.expires = l.Token.Major, l.TTL, w.clock.now()+l.TTL
			},
			"": func(*rapid.T) {
				st, err := w.issuers[0].Status(w.Context(), key)
				check("held", err == nil, model.holds(model.holder, w.clock.now()))
				if err == nil {
					check("holder", st.Token.Major, model.holder)
				}
			},
		})
	})
}

// Several issuers over one store, and calls of it without a result: no two
// holders may believe to have the lease at once, tokens only grow, and a lease
// that nobody renews is free again.
func TestIssuersNeverOverlap(t *testing.T) {
	granted, lost := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, true, 3)
		defer w.close()
		w.acquire(w.issuers[0], time.Second)
		unknown := func(do func()) {
			call := rapid.SampledFrom([]string{"", "", "", "grant", "renew", "end", "look"}).Draw(t, "cut")
			if rapid.Bool().Draw(t, "made") {
				w.store.fail(nil, once(call))
			} else {
				w.store.fail(once(call), nil)
			}
			do()
			w.store.fail(nil, nil)
		}
		t.Repeat(map[string]func(*rapid.T){
			"pass": w.pass,
			"acquire": func(*rapid.T) {
				i, ttl := w.issuer(), ttls.Draw(t, "ttl")
				if _, ok := w.acquire(i, ttl); ok {
					granted++
				}
			},
			"acquire over a bad line": func(*rapid.T) {
				i := w.issuer()
				unknown(func() {
					h, err := i.Acquire(w.Context(), Request{Key: key, Holder: "x", TTL: time.Second})
					if err != nil {
						return
					}
					for n := range w.until {
						if w.clock.now() < w.until[n] {
							t.Fatalf("%+v is granted while %+v is held until %v", h, w.grants[n], w.until[n])
						}
					}
					w.grants, w.until, w.renewed = append(w.grants, h), append(w.until, w.clock.now()+h.Left), append(w.renewed, w.clock.now())
				})
			},
			"renew": func(*rapid.T) {
				i, n := w.issuer(), w.old()
				if !w.renew(i, n, rapid.SampledFrom([]time.Duration{0, 0, time.Second}).Draw(t, "ttl")) && n == len(w.grants)-1 {
					lost++
				}
			},
			"renew over a bad line": func(*rapid.T) {
				i, n := w.issuer(), w.old()
				unknown(func() {
					if h, err := i.Renew(w.Context(), key, w.grants[n].ID, 0); err == nil {
						w.until[n], w.renewed[n] = w.clock.now()+h.Left, w.clock.now()
					}
				})
			},
			"release": func(*rapid.T) {
				i, n := w.issuer(), w.old()
				unknown(func() {
					// Whatever comes of it, its holder does not count on the lease.
					_ = i.Release(w.Context(), key, w.grants[n].ID)
					w.until[n] = 0
				})
			},
			"wait for it": func(*rapid.T) {
				i := w.issuer()
				if _, ok := w.acquire(i, time.Second); ok {
					return
				}
				w.clock.Add(int64(time.Second)) // the longest that any lease lives unchanged
				if _, ok := w.acquire(i, time.Second); !ok {
					t.Fatal("nobody renews it, and it is not free")
				}
			},
		})
	})
	t.Logf("%d grants, %d losses", granted, lost)
	if granted < 30 || lost < 5 {
		t.Errorf("%d grants and %d losses: this has shown little", granted, lost)
	}
}
