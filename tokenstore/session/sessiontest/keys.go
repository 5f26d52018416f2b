package sessiontest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// keyChecks are the promises on lists of keys and on forgetting them; what they
// say of any store is in storetest.
var keyChecks = []check{
	{"a key with an entry, of anybody, is not forgotten", testForgetOpen},
	{"a key is forgotten once, and only as it was seen", testForgetSeen},
	{"a key that is forgotten while it is acquired is there or has no entry", testForgetRace},
	{"a list, page after page", testPages},
}

func (p *proxy) record(key tokenstore.Key) tokenstore.Record {
	p.t.Helper()
	rec, ok, err := p.Load(p.ctx(), key)
	if err != nil || !ok {
		p.t.Fatalf("Load(%s) = %v, %v", key, ok, err)
	}
	return rec
}

func (p *proxy) wantInUse(key tokenstore.Key, was tokenstore.Record) {
	p.t.Helper()
	err := p.Forget(p.ctx(), key, was)
	if used := (*tokenstore.InUseError)(nil); !errors.As(err, &used) || used.Key != key {
		p.t.Errorf("Forget(%s) = %v, want an *InUseError", key, err)
	}
	p.record(key)
}

func testForgetOpen(t *testing.T, open func() *proxy) {
	a, b := open().begin(long), open().begin(long)
	mine := a.mustAcquire([]tokenstore.Mark{mark("k", 1)})
	beside := a.mustAcquire([]tokenstore.Mark{mark("kk", 1), mark("k\x01", 1)}) // neighbours
	was := a.record("k")
	a.wantInUse("k", was)
	b.wantInUse("k", was)
	// One of a dead session counts as well: its writes may be on their way.
	if err := b.End(b.ctx(), a.id); err != nil {
		t.Fatal(err)
	}
	b.wantInUse("k", was)
	b.mustDelete(mine...)
	if err := b.Forget(b.ctx(), "k", was); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := a.Load(a.ctx(), "k"); ok || err != nil {
		t.Errorf("Load = %v, %v after it was forgotten", ok, err)
	}
	b.mustDelete(beside...)
	b.record("kk")
	b.mustAcquire([]tokenstore.Mark{mark("k", 0)})
	if rec := b.record("k"); rec.Highest != token(0) {
		t.Errorf("the record is %+v", rec)
	}
}

func testForgetSeen(t *testing.T, open func() *proxy) {
	a := open().begin(long)
	a.mustDelete(a.mustAcquire([]tokenstore.Mark{mark("k", 1)})...)
	was := a.record("k")
	a.mustDelete(a.mustAcquire([]tokenstore.Mark{mark("k", 2)})...)
	a.wantInUse("k", was)
	was = a.record("k")
	a.mustDelete(a.mustAcquire([]tokenstore.Mark{{Key: "k", Token: token(2), Holder: "h"}})...)
	a.wantInUse("k", was)
	was = a.record("k")
	for range 2 { // the second time there is no record
		if err := a.Forget(a.ctx(), "k", was); err != nil {
			t.Fatal(err)
		}
	}
	// The same token again is another record: a removal that comes late leaves
	// it alone.
	a.mustDelete(a.mustAcquire([]tokenstore.Mark{{Key: "k", Token: token(2), Holder: "h"}})...)
	a.wantInUse("k", was)
}

// testForgetRace: whoever comes second sees the other. An entry without a record
// would let a lower token in beside it.
func testForgetRace(t *testing.T, open func() *proxy) {
	a, b := open().begin(long), open().begin(long)
	forgot, refused := 0, 0
	for i := range 40 {
		key := tokenstore.Key(fmt.Sprint("k", i))
		a.mustDelete(a.mustAcquire([]tokenstore.Mark{mark(key, 1)})...)
		was := a.record(key)
		done := make(chan error, 1)
		go func() { done <- a.Forget(a.ctx(), key, was) }()
		mine := b.mustAcquire([]tokenstore.Mark{mark(key, 1)})
		err := <-done
		if used := (*tokenstore.InUseError)(nil); errors.As(err, &used) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		} else {
			forgot++
		}
		if rec := b.record(key); rec.Highest != token(1) {
			t.Fatalf("the record beside an entry is %+v", rec)
		}
		same(t, "open", b.open(key), mine)
	}
	t.Logf("%d forgotten, %d refused", forgot, refused)
}

func testPages(t *testing.T, open func() *proxy) {
	a := open().begin(long)
	var want []tokenstore.Key
	var marks []tokenstore.Mark
	for i := range 48 {
		key := tokenstore.Key(fmt.Sprintf("p:%02d", i))
		want = append(want, key)
		if marks = append(marks, mark(key, uint64(i))); len(marks) == 16 {
			a.mustAcquire(marks)
			marks = nil
		}
	}
	a.mustAcquire([]tokenstore.Mark{mark("o", 1), mark("q", 1)})
	for _, limit := range []int{1, 7, 48, tokenstore.MaxPage} {
		var got []tokenstore.Key
		for after := tokenstore.Key(""); ; {
			page, next, err := a.List(a.ctx(), "p:", after, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("List = %d keys, %v", len(page), err)
			}
			for _, l := range page {
				got = append(got, l.Key)
				if l.Damaged != nil || !l.Record.Same(a.record(l.Key)) {
					t.Fatalf("listed %+v", l)
				}
			}
			if after = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("limit %d: %q, want %q", limit, got, want)
		}
	}
}
