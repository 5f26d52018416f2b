package storetest

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// recordChecks are the promises on one key.
var recordChecks = []check{
	{"a new store is empty and had no life before", testNew},
	{"a raise is recorded", testRaise},
	{"the zero token is a token", testZero},
	{"tokens are compared number by number", testOrder},
	{"a lower token is stale and changes nothing", testStale},
	{"an equal token changes nothing", testEqual},
	{"a late clear is dropped once overtaken", testClearLate},
	{"an equal token of another holder collides", testHolder},
	{"any bytes make a key", testKeys},
	{"what is no key is refused", testNoKey},
	{"a grant can be released twice", testRelease},
}

// clearChecks are the promises on clear. A store that several proxies share
// cannot know it, and never says it.
var clearChecks = []check{
	{"clear is added to an equal token", testClearEqual},
	{"clear does not outlive its token", testClearRaised},
}

func testNew(t *testing.T, s tokenstore.Store) {
	wantNone(t, s, "k")
	if s.Recovered() {
		t.Error("a new store says that its last life ended uncleanly")
	}
}

func testRaise(t *testing.T, s tokenstore.Store) {
	before := time.Now().Add(-time.Second)
	mustAcquire(t, s, mark("k", 5))
	rec := load(t, s, "k")
	if rec.Highest != token(5) || rec.Clear || rec.Holder != "" {
		t.Errorf("record = %+v, want highest 5, not clear, no holder", rec)
	}
	if rec.RaisedAt.Before(before) || rec.RaisedAt.After(time.Now().Add(time.Second)) {
		t.Errorf("raised at %v, which is not now", rec.RaisedAt)
	}
	wantNone(t, s, "K", "k/", "")
	mustAcquire(t, s, mark("k", 9))
	wantHighest(t, s, "k", token(9))
}

func testZero(t *testing.T, s tokenstore.Store) {
	mustAcquire(t, s, mark("k", 0))
	wantHighest(t, s, "k", tokenstore.Token{})
	mustAcquire(t, s, mark("k", 0))
	mustAcquire(t, s, mark("k", 1))
	wantStale(t, acquire(s, mark("k", 0)), tokenstore.StaleError{Key: "k", Highest: token(1)})
}

func testOrder(t *testing.T, s tokenstore.Store) {
	const most = math.MaxUint64
	rising := []tokenstore.Token{
		{Minor: 1}, {Minor: 256}, {Minor: most}, {Major: 1}, {Major: 255, Minor: most}, {Major: 256}, {Major: most}, {Major: most, Minor: most},
		{Epoch: 1}, {Epoch: 1, Minor: 1}, {Epoch: 2}, {Epoch: most, Major: most, Minor: most},
	}
	for i, tok := range rising {
		mustAcquire(t, s, tokenstore.Mark{Key: "k", Token: tok})
		wantHighest(t, s, "k", tok)
		for _, lower := range rising[:i] {
			wantStale(t, acquire(s, tokenstore.Mark{Key: "k", Token: lower}), tokenstore.StaleError{Key: "k", Token: lower, Highest: tok})
		}
	}
}

func testStale(t *testing.T, s tokenstore.Store) {
	mustAcquire(t, s, tokenstore.Mark{Key: "k", Token: token(7), Holder: "b"})
	before := load(t, s, "k")
	err := acquire(s, tokenstore.Mark{Key: "k", Token: token(6), Clear: true, Holder: "a"})
	wantStale(t, err, tokenstore.StaleError{Key: "k", Token: token(6), Highest: token(7)})
	wantSame(t, load(t, s, "k"), before)
}

func testEqual(t *testing.T, s tokenstore.Store) {
	mustAcquire(t, s, tokenstore.Mark{Key: "k", Token: token(7), Clear: true, Holder: "a"})
	before := load(t, s, "k")
	mustAcquire(t, s, tokenstore.Mark{Key: "k", Token: token(7), Holder: "a"})
	wantSame(t, load(t, s, "k"), before)
}

func testClearEqual(t *testing.T, s tokenstore.Store) {
	mustAcquire(t, s, mark("k", 7))
	want := load(t, s, "k")
	mustAcquire(t, s, tokenstore.Mark{Key: "k", Token: token(7), Clear: true})
	want.Clear = true
	wantSame(t, load(t, s, "k"), want)
}

func testClearRaised(t *testing.T, s tokenstore.Store) {
	mustAcquire(t, s, tokenstore.Mark{Key: "k", Token: token(7), Clear: true})
	if !load(t, s, "k").Clear {
		t.Fatal("clear was not recorded together with its token")
	}
	mustAcquire(t, s, mark("k", 8))
	if load(t, s, "k").Clear {
		t.Fatal("the higher token was recorded as clear, which nobody said")
	}
}

// testClearLate: a clear for token 7 must never say something of token 8, nor
// of a key that has no record. When it is written is the store's business, so
// that other raises are made and waited for in between.
func testClearLate(t *testing.T, s tokenstore.Store) {
	mustAcquire(t, s, mark("k", 7))
	s.Clear("k", token(6))
	s.Clear("none", token(6))
	mustAcquire(t, s, mark("k", 8))
	s.Clear("k", token(7))
	s.Clear("k", token(9))
	for n := range uint64(20) {
		mustAcquire(t, s, mark("other", n))
	}
	rec := load(t, s, "k")
	if rec.Highest != token(8) || rec.Clear {
		t.Errorf("record = %+v, want highest 8 and not clear", rec)
	}
	wantNone(t, s, "none")
}

func testHolder(t *testing.T, s tokenstore.Store) {
	held := func(n uint64, holder string) tokenstore.Mark {
		return tokenstore.Mark{Key: "k", Token: token(n), Holder: holder}
	}
	mustAcquire(t, s, held(7, "a"))
	before := load(t, s, "k")
	if before.Holder != "a" {
		t.Fatalf("holder = %q, want a", before.Holder)
	}
	for _, other := range []string{"b", "A", "a ", strings.Repeat("a", 1024)} {
		m := held(7, other)
		m.Clear = true
		err := acquire(s, m)
		var collision *tokenstore.CollisionError
		if !errors.As(err, &collision) {
			t.Fatalf("holder %.10q: error = %v, want a *CollisionError", other, err)
		}
		if want := (tokenstore.CollisionError{Key: "k", Token: token(7), Holder: other, Current: "a"}); *collision != want {
			t.Fatalf("refused with %+v, want %+v", *collision, want)
		}
		if errors.Is(err, tokenstore.ErrUnavailable) {
			t.Fatalf("error %v is a refusal and unknown at once", err)
		}
	}
	wantSame(t, load(t, s, "k"), before)
	mustAcquire(t, s, held(7, "a"))
	mustAcquire(t, s, held(7, ""))
	wantSame(t, load(t, s, "k"), before)
	mustAcquire(t, s, held(8, "b"))
	if got := load(t, s, "k").Holder; got != "b" {
		t.Errorf("holder of the higher token = %q, want b", got)
	}
	mustAcquire(t, s, held(9, ""))
	if got := load(t, s, "k").Holder; got != "" {
		t.Errorf("holder of a higher token without one = %q, want none", got)
	}
}

func testKeys(t *testing.T, s tokenstore.Store) {
	keys := []tokenstore.Key{
		"a", "A", "a/b", "a\x00b", "a\x00", "\x00", "\xff\xfe", "ключ", "a%2Fb",
		tokenstore.Key(strings.Repeat("k", tokenstore.MaxKey)), tokenstore.Key(strings.Repeat("k", tokenstore.MaxKey-1)),
	}
	for i, key := range keys {
		mustAcquire(t, s, mark(key, uint64(i)))
	}
	for i, key := range keys {
		wantHighest(t, s, key, token(uint64(i)))
	}
}

func testNoKey(t *testing.T, s tokenstore.Store) {
	long := tokenstore.Key(strings.Repeat("k", tokenstore.MaxKey+1))
	for name, marks := range map[string][]tokenstore.Mark{
		"empty key":       {mark("ok", 1), mark("", 1)},
		"too long":        {mark("ok", 1), mark(long, 1)},
		"named twice":     {mark("ok", 1), mark("ok", 1)},
		"twice, not next": {mark("ok", 1), mark("x", 1), mark("ok", 2)},
		"no key at all":   {},
	} {
		t.Run(name, func(t *testing.T) { wantUnknown(t, acquire(s, marks...)) })
	}
	wantNone(t, s, "ok", "x")
}

func testRelease(t *testing.T, s tokenstore.Store) {
	grant, err := s.Acquire(context.Background(), []tokenstore.Mark{mark("k", 1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := grant.Drained(context.Background()); err != nil {
		t.Errorf("Drained with no other proxy: %v", err)
	}
	if !grant.MaySend() {
		t.Error("a fresh grant may not send")
	}
	if s.Raised() == nil && grant != tokenstore.Sole {
		t.Errorf("a store of one proxy gave %T, not Sole", grant)
	}
	grant.Release()
	grant.Release()
	mustAcquire(t, s, mark("k", 2))
}

// wantSame compares records; times are compared as instants.
func wantSame(t *testing.T, got, want tokenstore.Record) {
	t.Helper()
	if got.Highest != want.Highest || got.Clear != want.Clear || got.Holder != want.Holder || !got.RaisedAt.Equal(want.RaisedAt) {
		t.Fatalf("record = %+v, want %+v", got, want)
	}
}
