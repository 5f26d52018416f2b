package sessiontest

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// entryChecks are the promises on entries.
var entryChecks = []check{
	{"a delete removes its entries and no other nonce (X10)", testDelete},
	{"deleting twice, or what never was, is no error", testDeleteTwice},
	{"the entries of a session, many of them", testEntries},
}

func testDelete(t *testing.T, open func() *proxy) {
	a, b := open().begin(long), open().begin(long)
	first := a.mustAcquire([]tokenstore.Mark{mark("k", 1), mark("l", 1)})
	again := a.mustAcquire([]tokenstore.Mark{mark("k", 1)})
	theirs := b.mustAcquire([]tokenstore.Mark{mark("k", 1)})
	b.mustDelete(first[0])
	same(t, "open of k", a.open("k"), append(again, theirs...))
	same(t, "open of l", a.open("l"), first[1:])
	a.mustDelete(first[0], first[1], theirs[0])
	same(t, "open of k", b.open("k"), again)
	same(t, "open of l", b.open("l"), nil)
	if rec, ok, err := b.Load(b.ctx(), "l"); err != nil || !ok || rec.Highest != token(1) {
		t.Errorf("Load = %+v, %v, %v: the record went with its entry", rec, ok, err)
	}
	b.mustAcquire([]tokenstore.Mark{mark("k", 2)}, again...)
}

func testDeleteTwice(t *testing.T, open func() *proxy) {
	a := open().begin(long)
	mine := a.mustAcquire([]tokenstore.Mark{mark("k", 1)})
	a.mustDelete(mine...)
	a.mustDelete(mine...)
	a.mustDelete(session.Entry{Key: "never", Token: token(7), Session: session.ID{7}, Nonce: 7})
	same(t, "open", a.open("k"), nil)
}

func testEntries(t *testing.T, open func() *proxy) {
	a, b := open().begin(long), open().begin(long)
	const calls, each = 100, 16
	var mine []session.Entry
	for i := range calls {
		var marks []tokenstore.Mark
		for j := range each {
			marks = append(marks, mark(tokenstore.Key([]byte{byte(i), byte(j), 'k'}), uint64(j)))
		}
		mine = append(mine, a.mustAcquire(marks)...)
	}
	theirs := b.mustAcquire([]tokenstore.Mark{mark("theirs", 1)})
	got, err := b.Entries(b.ctx(), a.id)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "entries of a", got, mine)
	var keys []tokenstore.Key
	for _, e := range mine[:session.MaxBatch] {
		keys = append(keys, e.Key)
	}
	states, err := b.Look(b.ctx(), keys)
	if err != nil {
		t.Fatal(err)
	}
	var looked []session.Entry
	for _, st := range states {
		looked = append(looked, st.Open...)
	}
	same(t, "entries of a full Look", looked, mine[:session.MaxBatch])
	for len(mine) > 0 {
		n := min(len(mine), session.MaxBatch)
		a.mustDelete(mine[:n]...)
		mine = mine[n:]
	}
	if got, err = b.Entries(b.ctx(), a.id); err != nil || len(got) > 0 {
		t.Errorf("Entries = %d, %v after all were deleted", len(got), err)
	}
	if got, err = a.Entries(a.ctx(), b.id); err != nil {
		t.Fatal(err)
	}
	same(t, "entries of b", got, theirs)
}
