package redis_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

func list(t *testing.T, b *redis.Backend, prefix string, limit int) (all []tokenstore.Listed) {
	t.Helper()
	for after := tokenstore.Key(""); ; {
		some, next, err := b.List(t.Context(), prefix, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, some...); next == "" {
			return all
		}
		after = next
	}
}

func keysOf(list []tokenstore.Listed) (keys []tokenstore.Key) {
	for _, r := range list {
		keys = append(keys, r.Key)
	}
	return keys
}

func TestKeys(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	s, b := openStore(t, o), openBackend(t, o)
	defer func() { _ = b.Close() }()
	all := []tokenstore.Key{"\x00", "a", "a:1", "a:2", "a:\xff", "a:\xff\xff", "a;", "b", "\xff", "\xff\xff1"}
	for i, key := range all {
		mustAdmit(t, s, tokenstore.Mark{Key: key, Token: token(uint64(i)), Holder: "h"}).Release()
		mustAdmit(t, s, tokenstore.Mark{Key: key, Token: token(uint64(i) + 1), Holder: "h"}).Release()
	}
	for prefix, want := range map[string][]tokenstore.Key{
		"": all, "a": all[1:7], "a:": all[2:6], "a:\xff": all[4:6], "\xff": all[8:], "c": nil, "\xff\xff": all[9:],
	} {
		for _, limit := range []int{0, 1, 2, 3, len(all)} {
			if got := keysOf(list(t, b, prefix, limit)); !slices.Equal(got, want) {
				t.Errorf("prefix %q by %d: %q, want %q", prefix, limit, got, want)
			}
		}
	}
	for i, r := range list(t, b, "", 0) {
		if r.Damaged != nil || r.Record.Highest != token(uint64(i)+1) || r.Record.Holder != "h" || time.Since(r.Record.RaisedAt) > time.Minute {
			t.Errorf("%q: %+v, %v", r.Key, r.Record, r.Damaged)
		}
	}
	server.do("DEL", o.Prefix+"record:b")
	if got := list(t, b, "b", 0); len(got) != 1 || got[0].Damaged == nil {
		t.Errorf("a key whose record is gone: %+v", got)
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	from, to := server.store(), server.store()
	s := openStore(t, from)
	for i := range uint64(5) {
		mustAdmit(t, s, tokenstore.Mark{Key: tokenstore.Key([]byte{'a' + byte(i)}), Token: token(10 + i), Holder: "h"}).Release()
	}
	b := openBackend(t, from)
	defer func() { _ = b.Close() }()
	var records []dump.Record
	for _, l := range list(t, b, "", 0) {
		records = append(records, dump.Record{Key: l.Key, Record: l.Record})
	}
	if err := b.Import(t.Context(), records); err == nil {
		t.Error("an import into a store that is used")
	}

	other := openStore(t, to)
	mustAdmit(t, other, mark("a", 99)).Release()
	mustAdmit(t, other, mark("b", 11)).Release()
	if err := other.Close(true); err != nil {
		t.Fatal(err)
	}
	c := openBackend(t, to)
	defer func() { _ = c.Close() }()
	for range 2 { // twice is as once
		if err := c.Import(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	got := list(t, c, "", 0)
	if len(got) != len(records) {
		t.Fatalf("keys = %q, want those of %v", keysOf(got), records)
	}
	for i, r := range got {
		switch want := records[i]; r.Key {
		case "a":
			if r.Record.Highest != token(99) {
				t.Errorf("a: %+v, want the higher token", r.Record)
			}
		case "b":
			if r.Record.Highest != token(11) || r.Record.Holder != "h" {
				t.Errorf("b: %+v, want the holder too", r.Record)
			}
		default:
			if r.Key != want.Key || !r.Record.RaisedAt.Equal(want.RaisedAt) || r.Record.Highest != want.Highest || r.Record.Holder != want.Holder {
				t.Errorf("%s: %+v, want %+v", r.Key, r.Record, want)
			}
		}
	}
	if err := c.Import(t.Context(), []dump.Record{{}}); err == nil {
		t.Error("an empty key is imported")
	}
	id := session.ID{1}
	if err := c.Begin(t.Context(), id, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := c.Begin(t.Context(), id, time.Minute); err == nil {
		t.Error("a session is begun twice")
	}
}
