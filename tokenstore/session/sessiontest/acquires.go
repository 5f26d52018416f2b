package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// acquireChecks are the promises on the one transaction of R2.
var acquireChecks = []check{
	{"a raise and its entry", testAcquire},
	{"it tells whether it was a raise", testRaised},
	{"older entries of all sessions are told, newer and equal ones are not", testOlder},
	{"tokens are compared number by number", testOrder},
	{"a stale one of several leaves nothing", testStale},
	{"a collision of several leaves nothing", testCollision},
	{"any bytes make a key", testKeys},
	{"a context that is over gets an unknown result", testContext},
	{"raise and entry are one step (X8)", testOneStep},
}

func testAcquire(t *testing.T, open func() *proxy) {
	a, b := open().begin(long), open()
	mine := a.mustAcquire([]tokenstore.Mark{{Key: "k", Token: token(5), Holder: "h"}})
	rec, ok, err := b.Load(b.ctx(), "k")
	if err != nil || !ok || rec.Highest != token(5) || rec.Holder != "h" || rec.Clear || rec.RaisedAt.IsZero() {
		t.Errorf("Load = %+v, %v, %v", rec, ok, err)
	}
	states, err := b.Look(b.ctx(), []tokenstore.Key{"k", "none"})
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range states {
		switch {
		case st.Key == "k" && st.Exists && st.Record.Highest == token(5):
			same(t, "open", st.Open, mine)
		case st.Key == "none" && !st.Exists && len(st.Open) == 0:
		default:
			t.Errorf("state = %+v", st)
		}
	}
}

func testRaised(t *testing.T, open func() *proxy) {
	a, b := open().begin(long), open().begin(long)
	for _, c := range []struct {
		by    *proxy
		marks []tokenstore.Mark
		want  bool
	}{
		{a, []tokenstore.Mark{mark("k", 1)}, true},
		{a, []tokenstore.Mark{mark("k", 1)}, false},
		{b, []tokenstore.Mark{mark("k", 1)}, false},
		{b, []tokenstore.Mark{{Key: "k", Token: token(1), Holder: "h"}}, false},
		{b, []tokenstore.Mark{{Key: "k", Token: token(1), Holder: "h"}, mark("l", 1)}, true},
		{a, []tokenstore.Mark{mark("k", 1), mark("l", 1)}, false},
		{a, []tokenstore.Mark{mark("k", 1), mark("l", 2)}, true},
		{b, []tokenstore.Mark{mark("k", 2)}, true},
		{a, []tokenstore.Mark{mark("k", 2)}, false},
	} {
		if _, _, err := c.by.acquire(c.marks...); err != nil || c.by.raised != c.want {
			t.Errorf("%v: raised %v, %v; want %v", c.marks, c.by.raised, err, c.want)
		}
	}
}

func testOlder(t *testing.T, open func() *proxy) {
	a, b := open().begin(long), open().begin(long)
	a1 := a.mustAcquire([]tokenstore.Mark{mark("k", 1), mark("l", 1)})
	a1b := a.mustAcquire([]tokenstore.Mark{mark("k", 1)}) // another nonce is another entry
	b1 := b.mustAcquire([]tokenstore.Mark{mark("k", 1)})
	b2 := b.mustAcquire([]tokenstore.Mark{mark("k", 2)}, a1[0], a1b[0], b1[0])
	a2 := a.mustAcquire([]tokenstore.Mark{mark("k", 2)}, a1[0], a1b[0], b1[0])
	b.mustAcquire([]tokenstore.Mark{mark("k", 3), mark("l", 2), mark("m", 1)}, a1[0], a1b[0], b1[0], a2[0], b2[0], a1[1])
}

func testOrder(t *testing.T, open func() *proxy) {
	const most = math.MaxUint64
	a := open().begin(long)
	rising := []tokenstore.Token{
		{}, {Minor: 1}, {Minor: 256}, {Minor: most}, {Major: 1}, {Major: 255, Minor: most}, {Major: 256}, {Major: most}, {Major: most, Minor: most},
		{Epoch: 1}, {Epoch: 1, Minor: 1}, {Epoch: 2}, {Epoch: most, Major: most, Minor: most},
	}
	var before []session.Entry
	for i, tok := range rising {
		before = append(before, a.mustAcquire([]tokenstore.Mark{{Key: "k", Token: tok}}, before...)...)
		if i == 0 {
			continue
		}
		_, _, err := a.acquire(tokenstore.Mark{Key: "k", Token: rising[i-1]})
		var stale *tokenstore.StaleError
		if !errors.As(err, &stale) || *stale != (tokenstore.StaleError{Key: "k", Token: rising[i-1], Highest: tok}) {
			t.Errorf("token %v under %v: %v", rising[i-1], tok, err)
		}
		if errors.Is(err, tokenstore.ErrUnavailable) {
			t.Errorf("%v is a refusal and unknown at once", err)
		}
	}
	same(t, "open", a.open("k"), before)
}

func testStale(t *testing.T, open func() *proxy) {
	a := open().begin(long)
	five := a.mustAcquire([]tokenstore.Mark{mark("b", 5)})
	for _, marks := range [][]tokenstore.Mark{
		{mark("b", 4), mark("a", 9), mark("c", 9)}, {mark("a", 9), mark("b", 4), mark("c", 9)}, {mark("a", 9), mark("c", 9), mark("b", 4)},
	} {
		var stale *tokenstore.StaleError
		if _, _, err := a.acquire(marks...); !errors.As(err, &stale) || *stale != (tokenstore.StaleError{Key: "b", Token: token(4), Highest: token(5)}) {
			t.Errorf("%v: %v, want that b is stale", marks, err)
		}
	}
	nothing(t, a, "a", "c")
	same(t, "open", a.open("b"), five)
}

func testCollision(t *testing.T, open func() *proxy) {
	a := open().begin(long)
	x := a.mustAcquire([]tokenstore.Mark{{Key: "b", Token: token(5), Holder: "x"}})
	_, _, err := a.acquire(mark("a", 9), tokenstore.Mark{Key: "b", Token: token(5), Holder: "y"}, mark("c", 9))
	var collision *tokenstore.CollisionError
	if !errors.As(err, &collision) || *collision != (tokenstore.CollisionError{Key: "b", Token: token(5), Holder: "y", Current: "x"}) || errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("error = %v, want a collision on b", err)
	}
	nothing(t, a, "a", "c")
	same(t, "open", a.open("b"), x)
	a.mustAcquire([]tokenstore.Mark{{Key: "b", Token: token(5), Holder: "x"}})
	a.mustAcquire([]tokenstore.Mark{mark("b", 5)})
}

// nothing wants keys of which nothing is known.
func nothing(t *testing.T, p *proxy, keys ...tokenstore.Key) {
	t.Helper()
	for _, key := range keys {
		if rec, ok, err := p.Load(p.ctx(), key); ok || err != nil {
			t.Errorf("Load(%q) = %+v, %v, %v; want no record", key, rec, ok, err)
		}
		same(t, "open", p.open(key), nil)
	}
}

func testKeys(t *testing.T, open func() *proxy) {
	a := open().begin(long)
	keys := []tokenstore.Key{
		"a", "A", "a/b", "a/", "a\x00b", "a\x00", "\x00", "\xff\xfe", "ключ", "a%2Fb", "a:b", "{a}", "*",
		tokenstore.Key(strings.Repeat("k", tokenstore.MaxKey)), tokenstore.Key(strings.Repeat("k", tokenstore.MaxKey-1)),
	}
	entries := map[tokenstore.Key][]session.Entry{}
	for i, key := range keys {
		entries[key] = a.mustAcquire([]tokenstore.Mark{mark(key, uint64(i))})
	}
	for i, key := range keys {
		if rec, ok, err := a.Load(a.ctx(), key); err != nil || !ok || rec.Highest != token(uint64(i)) {
			t.Errorf("Load(%q) = %+v, %v, %v", key, rec, ok, err)
		}
		same(t, fmt.Sprintf("open of %q", key), a.open(key), entries[key])
		a.mustAcquire([]tokenstore.Mark{mark(key, 100)}, entries[key]...)
	}
}

func testContext(t *testing.T, open func() *proxy) {
	a := open().begin(long)
	a.mustAcquire([]tokenstore.Mark{mark("k", 5)})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for n := range uint64(2) { // the stale one too: nothing is known
		_, err := a.Acquire(ctx, a.id, []session.Want{{Mark: mark("k", 4+2*n), Nonce: 100 + n}})
		var stale *tokenstore.StaleError
		if err == nil || errors.As(err, &stale) || errors.Is(err, session.ErrSessionOver) {
			t.Errorf("Acquire with a context that is over: %v", err)
		}
	}
	if _, err := a.KeepAlive(ctx, a.id, long); err == nil || errors.Is(err, session.ErrSessionOver) {
		t.Errorf("KeepAlive with a context that is over: %v", err)
	}
}

// testOneStep: of two proxies that raise one key, in each round, the higher is
// told of the lower one's entry, or the lower is refused.
func testOneStep(t *testing.T, open func() *proxy) {
	a, b := open().begin(long), open().begin(long)
	const rounds = 100
	var refused, told atomic.Int64
	for n := range uint64(rounds) {
		keys := []tokenstore.Mark{mark("k", 2*n+1), mark("l", 2*n+1)}
		higher := []tokenstore.Mark{mark("l", 2*n+2), mark("k", 2*n+2)} // named the other way round: nobody waits for ever
		var mine, older []session.Entry
		var err, errB error
		var wg sync.WaitGroup
		wg.Go(func() { mine, _, err = a.acquire(keys...) })
		wg.Go(func() { _, older, errB = b.acquire(higher...) })
		wg.Wait()
		var stale *tokenstore.StaleError
		seen := 0
		for _, e := range older {
			for _, m := range mine {
				if e == m {
					seen++
				}
			}
		}
		switch {
		case errB != nil:
			t.Fatalf("round %d: the higher raise: %v", n, errB)
		case errors.As(err, &stale) && seen == 0:
			refused.Add(1)
		case err == nil && seen == len(mine):
			told.Add(1)
		default:
			t.Fatalf("round %d: the lower raise: %v; the higher one was told of %d of its entries", n, err, seen)
		}
	}
	if refused.Load() == 0 && told.Load() == 0 {
		t.Error("this has shown nothing")
	}
}
