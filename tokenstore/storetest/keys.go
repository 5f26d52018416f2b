package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// keyChecks are the promises on lists of keys and on forgetting them. Stores
// that make neither are let off.
var keyChecks = []check{
	{"a list has all keys, in their order, page after page", testList},
	{"a list begins with a prefix and behind a key", testListSpan},
	{"a key that is forgotten has no record, and begins anew", testForget},
	{"a key is forgotten only as it was seen", testForgetChanged},
	{"a key without a record is forgotten", testForgetNone},
	{"a key with a lease is not forgotten", testForgetLeased},
	{"keys are not told of, and not forgotten, when ctx has ended", testKeysContext},
}

type keyStore interface {
	tokenstore.Store
	tokenstore.Lister
	tokenstore.Forgetter
}

func keysOf(t *testing.T, s tokenstore.Store) keyStore {
	t.Helper()
	k, ok := s.(keyStore)
	if !ok {
		t.Skipf("%T tells of no keys", s)
	}
	return k
}

// listAll reads all pages.
func listAll(t *testing.T, s tokenstore.Lister, prefix string, after tokenstore.Key, limit int) (all []tokenstore.Listed) {
	t.Helper()
	for range 10_000 {
		page, next, err := s.List(context.Background(), prefix, after, limit)
		if err != nil {
			t.Fatalf("List(%q, %q, %d): %v", prefix, after, limit, err)
		}
		if limit > 0 && len(page) > limit || len(page) > tokenstore.MaxPage {
			t.Fatalf("a page of %d keys, and %d were asked for", len(page), limit)
		}
		all = append(all, page...)
		if next == "" {
			return all
		}
		if next <= after {
			t.Fatalf("next is %q behind %q", next, after)
		}
		after = next
	}
	t.Fatal("the list has no end")
	return nil
}

func wantListed(t *testing.T, got []tokenstore.Listed, want ...tokenstore.Key) {
	t.Helper()
	var keys []tokenstore.Key
	for _, l := range got {
		keys = append(keys, l.Key)
		if l.Damaged != nil {
			t.Errorf("%v", l.Damaged)
		}
	}
	if !slices.Equal(keys, want) {
		t.Fatalf("listed %q, want %q", keys, want)
	}
}

func testList(t *testing.T, st tokenstore.Store) {
	s := keysOf(t, st)
	wantListed(t, listAll(t, s, "", "", 0))
	var want []tokenstore.Key
	for i := range 250 {
		key := tokenstore.Key(fmt.Sprintf("key:%03d", i))
		want = append(want, key)
		mustAcquire(t, s, tokenstore.Mark{Key: key, Token: token(uint64(i)), Holder: "h"})
	}
	for _, limit := range []int{0, 1, 7, 250, 1001} {
		got := listAll(t, s, "", "", limit)
		wantListed(t, got, want...)
		for i, l := range got {
			if rec := load(t, s, l.Key); !rec.Same(l.Record) || rec.Highest != token(uint64(i)) || rec.Holder != "h" {
				t.Fatalf("listed %+v, and the record is %+v", l, rec)
			}
		}
	}
}

func testListSpan(t *testing.T, st tokenstore.Store) {
	s := keysOf(t, st)
	for _, key := range []tokenstore.Key{"a", "ab", "ab:1", "ab:2", "ab\xff", "ab\xff\xff1", "ac", "b", "\xff", "\xff\xff", "%2F"} {
		mustAcquire(t, s, mark(key, 1))
	}
	for _, c := range []struct {
		prefix string
		after  tokenstore.Key
		want   []tokenstore.Key
	}{
		{"ab", "", []tokenstore.Key{"ab", "ab:1", "ab:2", "ab\xff", "ab\xff\xff1"}},
		{"ab", "ab:1", []tokenstore.Key{"ab:2", "ab\xff", "ab\xff\xff1"}},
		{"ab", "aa", []tokenstore.Key{"ab", "ab:1", "ab:2", "ab\xff", "ab\xff\xff1"}},
		{"ab", "ac", nil},
		{"ab\xff", "", []tokenstore.Key{"ab\xff", "ab\xff\xff1"}},
		{"\xff", "", []tokenstore.Key{"\xff", "\xff\xff"}},
		{"", "b", []tokenstore.Key{"\xff", "\xff\xff"}},
		{"", "\xff\xff", nil},
		{"none", "", nil},
	} {
		for _, limit := range []int{1, 3, 100} {
			wantListed(t, listAll(t, s, c.prefix, c.after, limit), c.want...)
		}
	}
}

func testForget(t *testing.T, st tokenstore.Store) {
	s := keysOf(t, st)
	mustAcquire(t, s, mark("k", 7))
	mustAcquire(t, s, mark("l", 7))
	mustForget(t, s, "k")
	wantNone(t, s, "k")
	wantListed(t, listAll(t, s, "", "", 0), "l")
	mustAcquire(t, s, mark("k", 3))
	wantHighest(t, s, "k", token(3))
	wantHighest(t, s, "l", token(7))
	wantListed(t, listAll(t, s, "", "", 0), "k", "l")
	mustForget(t, s, "k")
	mustForget(t, s, "l")
	wantListed(t, listAll(t, s, "", "", 0))
}

// mustForget forgets a key once its grants are given back.
func mustForget(t *testing.T, s keyStore, key tokenstore.Key) {
	t.Helper()
	if err := s.Forget(context.Background(), key, load(t, s, key)); err != nil {
		t.Fatalf("Forget(%q): %v", key, err)
	}
}

func wantInUse(t *testing.T, err error, key tokenstore.Key) {
	t.Helper()
	var used *tokenstore.InUseError
	if !errors.As(err, &used) || used.Key != key || used.Why == "" {
		t.Fatalf("error = %v, want an *InUseError of key %s", err, key)
	}
	if errors.Is(err, tokenstore.ErrUnavailable) {
		t.Fatalf("error %v is a refusal and unknown at once", err)
	}
}

func testForgetChanged(t *testing.T, st tokenstore.Store) {
	s := keysOf(t, st)
	mustAcquire(t, s, mark("k", 7))
	was := load(t, s, "k")
	mustAcquire(t, s, mark("k", 8))
	wantInUse(t, s.Forget(context.Background(), "k", was), "k")
	wantHighest(t, s, "k", token(8))
	was = load(t, s, "k")
	mustAcquire(t, s, tokenstore.Mark{Key: "k", Token: token(8), Holder: "somebody"})
	wantInUse(t, s.Forget(context.Background(), "k", was), "k")
	if rec := load(t, s, "k"); rec.Holder != "somebody" {
		t.Errorf("record = %+v", rec)
	}
}

func testForgetNone(t *testing.T, st tokenstore.Store) {
	s := keysOf(t, st)
	if err := s.Forget(context.Background(), "k", tokenstore.Record{Highest: token(1)}); err != nil {
		t.Fatal(err)
	}
	wantNone(t, s, "k")
}

func testForgetLeased(t *testing.T, st tokenstore.Store) {
	s := keysOf(t, st)
	leaser, ok := st.(tokenstore.Leaser)
	if !ok {
		t.Skipf("%T keeps no leases", st)
	}
	mustAcquire(t, s, mark("k", 7))
	l, err := leaser.GrantLease(context.Background(), "k", tokenstore.Lease{}, tokenstore.Lease{ID: "id", Holder: "h", TTL: soon}, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantInUse(t, s.Forget(context.Background(), "k", load(t, s, "k")), "k")
	if err := leaser.EndLease(context.Background(), "k", l); err != nil {
		t.Fatal(err)
	}
	mustForget(t, s, "k")
	next, err := leaser.GrantLease(context.Background(), "k", tokenstore.Lease{}, tokenstore.Lease{ID: "id2", Holder: "h", TTL: soon}, 0)
	if err != nil || !l.Token.Less(next.Token) {
		t.Fatalf("a lease after the key was forgotten: %+v, %v; want a token above %v", next, err, l.Token)
	}
}

func testKeysContext(t *testing.T, st tokenstore.Store) {
	s := keysOf(t, st)
	mustAcquire(t, s, mark("k", 7))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err := s.List(ctx, "", "", 0)
	wantUnknown(t, err)
	wantUnknown(t, s.Forget(ctx, "k", load(t, s, "k")))
	wantHighest(t, s, "k", token(7))
}
