package sessiontest

import (
	"errors"
	"slices"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// unorderedChecks are the promises on entries of writes without a token.
var unorderedChecks = []check{
	{"an unordered entry asks nothing of the record", testUnordered},
	{"an unordered entry is below every token, and below no other", testBelow},
	{"an unordered entry goes with the tokens beside it", testUnorderedBeside},
	{"a keepalive comes with what has found an unordered entry (R7)", testUnorderedProof},
	{"who is found is heard of, and what came later is not", testUnorderedHeard},
}

func unordered(key tokenstore.Key) tokenstore.Mark {
	return tokenstore.Mark{Key: key, Unordered: true}
}

func testUnordered(t *testing.T, open func() *proxy) {
	a, b := open().begin(long), open().begin(short)
	five := b.mustAcquire([]tokenstore.Mark{{Key: "k", Token: token(5), Holder: "h"}})
	mine := a.mustAcquire([]tokenstore.Mark{unordered("k"), unordered("new")})
	more := a.mustAcquire([]tokenstore.Mark{unordered("k")})
	same(t, "open", b.open("k"), slices.Concat(five, mine[:1], more))
	if rec, ok, err := b.Load(b.ctx(), "k"); err != nil || !ok || rec.Highest != token(5) || rec.Holder != "h" {
		t.Errorf("Load = %+v, %v, %v", rec, ok, err)
	}
	if rec, ok, err := b.Load(b.ctx(), "new"); ok || err != nil {
		t.Errorf("Load = %+v, %v, %v; want no record", rec, ok, err)
	}
	own, err := b.Entries(b.ctx(), a.id)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "entries", own, append(mine, more...))
	a.mustDelete(mine[0])
	same(t, "open", b.open("k"), append(five, more...))
	eventually(t, "the session is gone", func() bool { return !a.sessions()[b.id] })
	if _, _, err := b.acquire(unordered("k")); !errors.Is(err, session.ErrSessionOver) {
		t.Errorf("Acquire of a session that is gone: %v", err)
	}
	same(t, "open", a.open("k"), append(five, more...))
}

func testBelow(t *testing.T, open func() *proxy) {
	a, b := open().begin(long), open().begin(long)
	lowest := a.mustAcquire([]tokenstore.Mark{mark("k", 0)})
	mine := a.mustAcquire([]tokenstore.Mark{unordered("k")})
	a.mustAcquire([]tokenstore.Mark{unordered("l")})
	b0 := b.mustAcquire([]tokenstore.Mark{mark("k", 0)}, mine...)
	b.nonce |= 1 << 62 // as of one that is only looked on
	b1 := b.mustAcquire([]tokenstore.Mark{mark("k", 1)}, slices.Concat(lowest, mine, b0)...)
	later := b.mustAcquire([]tokenstore.Mark{unordered("k")})
	b.mustAcquire([]tokenstore.Mark{mark("k", 1)}, slices.Concat(lowest, mine, b0, later)...)
	a.mustDelete(slices.Concat(lowest, mine, b0)...)
	a.mustAcquire([]tokenstore.Mark{mark("k", 2)}, slices.Concat(b1, later, []session.Entry{{Key: "k", Token: token(1), Session: b.id, Nonce: b.nonce}})...)
}

func testUnorderedBeside(t *testing.T, open func() *proxy) {
	a, b := open().begin(long), open().begin(long)
	five := b.mustAcquire([]tokenstore.Mark{mark("k", 5)})
	mine := a.mustAcquire([]tokenstore.Mark{unordered("a"), mark("b", 3), unordered("c")})
	var stale *tokenstore.StaleError
	if _, _, err := a.acquire(unordered("a"), mark("k", 4), unordered("z")); !errors.As(err, &stale) || stale.Key != "k" {
		t.Errorf("error = %v, want that k is stale", err)
	}
	same(t, "open of a", b.open("a"), mine[:1])
	same(t, "open of k", b.open("k"), five)
	nothing(t, b, "z")
	b.mustAcquire([]tokenstore.Mark{mark("a", 1), mark("b", 4), unordered("c")}, mine[0], mine[1])
	b.mustAcquire([]tokenstore.Mark{mark("b", 5), unordered("k")}, mine[1], session.Entry{Key: "b", Token: token(4), Session: b.id, Nonce: b.nonce - 1})
}

// testUnorderedProof: also where the record stays as it is.
func testUnorderedProof(t *testing.T, open func() *proxy) {
	a, b := open(), open().begin(long)
	h := newHeard()
	a.watch(h)
	a.begin(long)
	for n := uint64(1); n <= 20; n++ {
		if _, _, err := b.acquire(mark("l", n), mark("k", n)); err != nil {
			t.Fatal(err)
		}
		mine := a.mustAcquire([]tokenstore.Mark{unordered("k"), unordered("l")})
		h.saw(func() bool { clear(h.raised); return true })
		wants := [][]tokenstore.Mark{{mark("k", n)}, {mark("l", n)}}
		if n%2 == 0 {
			wants = [][]tokenstore.Mark{{mark("l", n), mark("k", n)}}
		}
		for _, marks := range wants {
			if _, _, err := b.acquire(marks...); err != nil {
				t.Fatal(err)
			}
		}
		overtaken, err := a.KeepAlive(a.ctx(), a.id, long)
		if err != nil {
			t.Fatalf("KeepAlive: %v", err)
		}
		for _, key := range []tokenstore.Key{"k", "l"} {
			told := h.saw(func() bool { _, ok := h.raised[key]; return ok }) ||
				slices.ContainsFunc(overtaken, func(m tokenstore.Mark) bool { return m.Key == key })
			if !told {
				t.Fatalf("round %d: the keepalive is confirmed, and nothing was told of %s", n, key)
			}
		}
		a.mustDelete(mine...)
	}
}

func testUnorderedHeard(t *testing.T, open func() *proxy) {
	a, b := open(), open().begin(long)
	h := newHeard()
	a.watch(h)
	a.begin(long)
	b.mustAcquire([]tokenstore.Mark{mark("k", 1)})
	mine := a.mustAcquire([]tokenstore.Mark{unordered("k")})
	eventually(t, "the holder hears of an acquire", func() bool {
		if _, _, err := b.acquire(mark("k", 1)); err != nil {
			t.Fatal(err)
		}
		return h.saw(func() bool { _, raised := h.raised["k"]; return raised || h.changed["k"] })
	})
	later := a.mustAcquire([]tokenstore.Mark{unordered("k")})
	states, err := a.Look(a.ctx(), []tokenstore.Key{"k"})
	if err != nil || len(states) != 1 {
		t.Fatalf("Look = %v, %v", states, err)
	}
	if found := states[0].Overtaken; len(found) > 0 {
		same(t, "overtaken", found, mine)
	} else if h.saw(func() bool { _, raised := h.raised["k"]; return !raised }) {
		t.Error("neither the Watch nor Look tells that an acquire has found the entry")
	}
	b.mustDelete(later...)
}
