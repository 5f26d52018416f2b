package sessiontest

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// leaseChecks are the promises of session.LeaseBackend.
var leaseChecks = []check{
	{"a lease is swapped where all holds, and else nothing", testSwap},
	{"a grant needs the counter as it is, and a lower record", testSwapGrant},
	{"of concurrent swaps one is done", testSwapOnce},
	{"the counter is raised and never lowered", testRaiseGranted},
	{"all leases are listed", testListLeases},
	{"a grant and an end are heard of elsewhere", testLeaseHeard},
}

func someLease(id string, n uint64) tokenstore.Lease {
	return tokenstore.Lease{ID: id, Holder: "of " + id, Token: token(n), TTL: 1500 * time.Millisecond, GrantedAt: time.UnixMilli(1_700_000_000_123)}
}

func (p *proxy) leaseState(key tokenstore.Key) session.LeaseState {
	p.t.Helper()
	st, err := p.LeaseState(p.ctx(), key)
	if err != nil {
		p.t.Fatalf("LeaseState(%q): %v", key, err)
	}
	return st
}

// swap wants a swap to be done, or not. Where not, it tells what there is.
func (p *proxy) swap(s session.LeaseSwap, want bool) {
	p.t.Helper()
	before := p.leaseState(s.Key)
	done, now, err := p.SwapLease(p.ctx(), s)
	if err != nil || done != want {
		p.t.Fatalf("SwapLease(%+v) = %v, %v; want %v", s, done, err, want)
	}
	after := p.leaseState(s.Key)
	switch {
	case !done && (!sameState(now, before) || !sameState(after, before)):
		p.t.Fatalf("SwapLease(%+v) was not done; it tells %+v, and from %+v it came to %+v", s, now, before, after)
	case done && !sameLease(after.Lease, s.Next):
		p.t.Fatalf("SwapLease(%+v) left %+v", s, after.Lease)
	case done && s.Grant && after.Granted != s.Next.Token.Major, done && !s.Grant && after.Granted != before.Granted:
		p.t.Fatalf("SwapLease(%+v) brought the counter from %d to %d", s, before.Granted, after.Granted)
	}
}

func sameLease(a, b tokenstore.Lease) bool {
	same := a.GrantedAt.Equal(b.GrantedAt)
	a.GrantedAt, b.GrantedAt = time.Time{}, time.Time{}
	return same && a == b
}

func sameState(a, b session.LeaseState) bool {
	return sameLease(a.Lease, b.Lease) && a.Granted == b.Granted && a.Exists == b.Exists && a.Record.Highest == b.Record.Highest
}

// grant grants a lease of key to nobody's or the one that was.
func (p *proxy) grant(key tokenstore.Key, was tokenstore.Lease, id string) tokenstore.Lease {
	p.t.Helper()
	granted := p.leaseState(key).Granted
	next := someLease(id, granted+1)
	p.swap(session.LeaseSwap{Key: key, Was: was, Next: next, Grant: true, Granted: granted}, true)
	return next
}

func testSwap(t *testing.T, open func() *proxy) {
	p := open()
	if st := p.leaseState("k"); st.Lease.Held() || st.Granted != 0 || st.Exists {
		t.Fatalf("a new store has %+v", st)
	}
	l := p.grant("k", tokenstore.Lease{}, "a")
	swap := func(was, next tokenstore.Lease, want bool) {
		t.Helper()
		p.swap(session.LeaseSwap{Key: "k", Was: was, Next: next}, want)
	}
	renewed := l
	renewed.TTL, renewed.Beat = time.Hour, 1
	for name, change := range map[string]func(l *tokenstore.Lease){
		"nobody":  func(l *tokenstore.Lease) { *l = tokenstore.Lease{} },
		"ID":      func(l *tokenstore.Lease) { l.ID = "b" },
		"holder":  func(l *tokenstore.Lease) { l.Holder = "" },
		"token":   func(l *tokenstore.Lease) { l.Token.Minor++ },
		"TTL":     func(l *tokenstore.Lease) { l.TTL++ },
		"beat":    func(l *tokenstore.Lease) { l.Beat++ },
		"granted": func(l *tokenstore.Lease) { l.GrantedAt = l.GrantedAt.Add(time.Millisecond) },
	} {
		wrong := l
		change(&wrong)
		t.Log(name)
		swap(wrong, renewed, false)
		if wrong.Held() {
			swap(wrong, tokenstore.Lease{}, false)
		}
	}
	swap(l, renewed, true)
	swap(l, renewed, false)
	swap(renewed, tokenstore.Lease{}, true)
	swap(renewed, tokenstore.Lease{}, false)
	if st := p.leaseState("k"); st.Granted != 1 {
		t.Fatalf("the counter is %d after token 1", st.Granted)
	}
	strange := tokenstore.Lease{ID: "\x00\xff'\"{}", Holder: "\xfe\x00\n", Token: tokenstore.Token{Epoch: 3, Major: 2}, TTL: math.MaxInt64}
	p.swap(session.LeaseSwap{Key: "\xff\x00k", Next: strange, Grant: true, Granted: 1}, true)
}

func testSwapGrant(t *testing.T, open func() *proxy) {
	p := open().begin(long)
	p.mustAcquire([]tokenstore.Mark{mark("k", 50)})
	grant := func(key tokenstore.Key, was tokenstore.Lease, n, granted uint64, want bool) {
		t.Helper()
		p.swap(session.LeaseSwap{Key: key, Was: was, Next: someLease("i", n), Grant: true, Granted: granted}, want)
	}
	grant("k", tokenstore.Lease{}, 49, 0, false)
	grant("k", tokenstore.Lease{}, 50, 0, false)
	grant("k", tokenstore.Lease{}, 51, 1, false)
	grant("k", tokenstore.Lease{}, 51, 0, true)
	grant("other", tokenstore.Lease{}, 52, 50, false)
	grant("other", tokenstore.Lease{}, 52, 0, false)
	grant("other", tokenstore.Lease{}, 52, 51, true)
	if st := p.leaseState("k"); !st.Exists || st.Record.Highest != token(50) || st.Granted != 52 {
		t.Fatalf("state %+v", st)
	}
	// A renewal looks at neither.
	p.mustAcquire([]tokenstore.Mark{mark("other", 99)})
	was := someLease("i", 52)
	next := was
	next.Beat++
	p.swap(session.LeaseSwap{Key: "other", Was: was, Next: next}, true)
	// The whole of the counter.
	high := someLease("z", math.MaxUint64)
	p.swap(session.LeaseSwap{Key: "top", Next: high, Grant: true, Granted: 52}, true)
	p.swap(session.LeaseSwap{Key: "more", Next: someLease("z", 7), Grant: true, Granted: 52}, false)
}

// testSwapOnce: all believe in the same; one of them is right.
func testSwapOnce(t *testing.T, open func() *proxy) {
	const rounds = 10
	proxies := []*proxy{open(), open(), open()}
	for n := range uint64(rounds) {
		var won atomic.Int64
		var wg sync.WaitGroup
		for i, p := range proxies {
			for j := range 3 {
				key := tokenstore.Key("k")
				if n%2 == 1 {
					key = tokenstore.Key(fmt.Sprint("k", i, j)) // the counter alone is in common
				}
				ctx := p.ctx()
				wg.Go(func() {
					before, err := p.LeaseState(ctx, key)
					if err != nil {
						t.Errorf("LeaseState: %v", err)
						return
					}
					done, now, err := p.SwapLease(ctx, session.LeaseSwap{Key: key, Was: before.Lease, Next: someLease(fmt.Sprint(n, i, j), n+1), Grant: true, Granted: n})
					switch {
					case err != nil:
						t.Errorf("SwapLease: %v", err)
					case done:
						won.Add(1)
					case now.Granted != n+1 && sameLease(now.Lease, before.Lease):
						t.Errorf("round %d: it was refused by %+v", n, now)
					}
				})
			}
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d swaps were done", n, won.Load())
		}
	}
}

func testRaiseGranted(t *testing.T, open func() *proxy) {
	a, b := open(), open()
	for _, step := range []struct{ to, want uint64 }{{0, 0}, {5, 5}, {3, 5}, {1 << 60, 1 << 60}, {5, 1 << 60}, {math.MaxUint64, math.MaxUint64}} {
		if now, err := a.RaiseGranted(a.ctx(), step.to); err != nil || now != step.want {
			t.Fatalf("RaiseGranted(%d) = %d, %v", step.to, now, err)
		}
		if got := b.leaseState("k").Granted; got != step.want {
			t.Fatalf("the counter is %d after %d, want %d", got, step.to, step.want)
		}
	}
}

func testListLeases(t *testing.T, open func() *proxy) {
	p := open()
	const n = 1050
	for i := range uint64(n) {
		s := session.LeaseSwap{Key: tokenstore.Key(fmt.Sprint("k", i)), Next: someLease(fmt.Sprint("i", i), i+1), Grant: true, Granted: i}
		if done, _, err := p.SwapLease(p.ctx(), s); err != nil || !done {
			t.Fatalf("SwapLease = %v, %v", done, err)
		}
	}
	p.swap(session.LeaseSwap{Key: "k7", Was: someLease("i7", 8)}, true)
	held, damaged, err := p.Leases(p.ctx())
	if err != nil || len(damaged) > 0 {
		t.Fatalf("Leases: %v, damaged: %v", err, damaged)
	}
	seen := map[tokenstore.Key]bool{}
	for _, l := range held {
		seen[l.Key] = true
		if !sameLease(l.Lease, someLease("i"+string(l.Key[1:]), l.Token.Major)) {
			t.Fatalf("key %s has %+v", l.Key, l.Lease)
		}
	}
	if len(seen) != n-1 || seen["k7"] {
		t.Fatalf("%d leases are listed, want %d", len(seen), n-1)
	}
}

func testLeaseHeard(t *testing.T, open func() *proxy) {
	a, b := open(), open()
	h := &leaseHeard{leased: map[tokenstore.Key]bool{}}
	b.watch(h)
	granted := uint64(0)
	eventually(t, "a grant is heard of", func() bool { // the watch may not run yet
		a.grant(tokenstore.Key(fmt.Sprint("k", granted)), tokenstore.Lease{}, "a")
		granted++
		return h.saw()
	})
	l := a.grant("ended", tokenstore.Lease{}, "a")
	eventually(t, "this grant is heard of", func() bool { return h.saw("ended") })
	h.forget()
	a.swap(session.LeaseSwap{Key: "ended", Was: l}, true)
	eventually(t, "its end is heard of", func() bool { return h.saw("ended") })
}

// leaseHeard collects what is heard of leases.
type leaseHeard struct {
	ignore
	mu     sync.Mutex // guards leased
	leased map[tokenstore.Key]bool
}

func (h *leaseHeard) Leased(key tokenstore.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leased[key] = true
}

func (h *leaseHeard) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.leased)
}

// saw reports whether something was heard of all keys, of any where none is named.
func (h *leaseHeard) saw(keys ...tokenstore.Key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		if !h.leased[key] {
			return false
		}
	}
	return len(h.leased) > 0
}
