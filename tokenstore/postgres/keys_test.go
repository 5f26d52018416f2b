package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

func TestKeysAndImport(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := place(t, s)
	b := open(t, o)
	defer func() { _ = b.Close() }()
	at := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	var all []dump.Record
	for i := range 25 {
		all = append(all, dump.Record{Key: tokenstore.Key(fmt.Sprintf("a%02d", i)), Record: tokenstore.Record{Highest: tok(uint64(i)), RaisedAt: at, Holder: "h"}})
	}
	all = append(all, dump.Record{Key: "b", Record: tokenstore.Record{Highest: tok(1), RaisedAt: at}}, dump.Record{Key: "\xff\xff", Record: tokenstore.Record{Highest: tok(2), RaisedAt: at}})
	if err := b.Import(t.Context(), slices.Concat(all[10:], all[:10])); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string][]dump.Record{"": all, "a": all[:25], "a1": all[10:20], "b": all[25:26], "\xff": all[26:], "c": nil} {
		var got []tokenstore.Listed
		for after, pages := tokenstore.Key(""), 0; ; pages++ {
			page, next, err := b.List(t.Context(), prefix, after, 4)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, page...)
			if next == "" {
				break
			}
			after = next
		}
		if len(got) != len(want) {
			t.Fatalf("prefix %q: %d keys, want %d", prefix, len(got), len(want))
		}
		for i := range want {
			got[i].Record.RaisedAt = got[i].Record.RaisedAt.UTC()
			if got[i] != (tokenstore.Listed{Key: want[i].Key, Record: want[i].Record}) {
				t.Errorf("prefix %q: %+v, want %+v", prefix, got[i], want[i])
			}
		}
	}

	// An import keeps the higher token, and tells those whom it overtakes.
	me := newID()
	if err := b.Begin(t.Context(), me, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), me, []session.Want{{Mark: mark("b", 5), Nonce: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{4, 5, 6} {
		if err := b.Import(t.Context(), []dump.Record{{Key: "b", Record: tokenstore.Record{Highest: tok(n), RaisedAt: at}}}); err != nil {
			t.Fatal(err)
		}
		overtaken, err := b.KeepAlive(t.Context(), me, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if n < 6 && len(overtaken) != 0 || n == 6 && !slices.Equal(overtaken, []tokenstore.Mark{mark("b", 6)}) {
			t.Errorf("after an import of %d: overtaken = %v", n, overtaken)
		}
	}
	if err := b.Import(t.Context(), []dump.Record{all[0], all[0]}); err == nil {
		t.Error("a key was named twice and taken")
	}
}

// TestDamaged: a record of a wrong form fails closed for its key alone.
func TestDamaged(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := place(t, s)
	b := open(t, o)
	defer func() { _ = b.Close() }()
	me := newID()
	if err := b.Begin(t.Context(), me, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), me, []session.Want{{Mark: mark("bad", 5), Nonce: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Import(t.Context(), []dump.Record{{Key: "b"}, {Key: "good", Record: tokenstore.Record{Highest: tok(3)}}}); err != nil {
		t.Fatal(err)
	}
	connect(t, s, "ALTER TABLE "+o.TablePrefix+"keys DROP CONSTRAINT "+o.TablePrefix+"keys_highest_check", "UPDATE "+o.TablePrefix+`keys SET highest = '\x00' WHERE key <> 'good'`)
	var damaged *tokenstore.DamagedError
	if _, _, err := b.Load(t.Context(), "bad"); !errors.As(err, &damaged) || damaged.Key != "bad" {
		t.Errorf("Load: %v", err)
	}
	if _, err := b.Acquire(t.Context(), me, []session.Want{{Mark: mark("aaa", 1), Nonce: 2}, {Mark: mark("bad", 9), Nonce: 3}}); !errors.As(err, &damaged) {
		t.Errorf("Acquire: %v", err)
	}
	if _, ok, err := b.Load(t.Context(), "aaa"); ok || err != nil {
		t.Errorf("Load of the other key = %v, %v: it was recorded", ok, err)
	}
	if states, err := b.Look(t.Context(), []tokenstore.Key{"bad", "aaa"}); err != nil || len(states) != 2 {
		t.Errorf("Look = %v, %v", states, err)
	}
	list, _, err := b.List(t.Context(), "", "", 0)
	if err != nil || len(list) != 3 {
		t.Fatalf("Keys = %v, %v: want all three", list, err)
	}
	for _, l := range list {
		if (l.Damaged == nil) != (l.Key == "good") || l.Damaged != nil && l.Damaged.Key != l.Key {
			t.Errorf("Keys tells of %s: %+v, %v", l.Key, l.Record, l.Damaged)
		}
	}
	if !strings.Contains(damaged.Error(), "bad") {
		t.Error(damaged)
	}
}

// A proxy that is stopped, or suspended, between two steps of a Forget has the
// key's row locked. Its kernel answers for it, so that the connection stays: the
// server has to end it, or no write on the key would pass at any other proxy.
func TestForgetThatStandsStill(t *testing.T) {
	t.Parallel()
	o := place(t, sharedServer(t))
	still, b := open(t, o), open(t, o)
	defer func() { _ = b.Close() }()
	defer func() { _ = still.Close() }()
	me := newID()
	if err := b.Begin(t.Context(), me, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), me, []session.Want{{Mark: mark("k", 1), Nonce: 1}}); err != nil {
		t.Fatal(err)
	}
	tx, err := still.work.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), still.sql.lock, []byte("k")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := b.Acquire(ctx, me, []session.Want{{Mark: mark("k", 2), Nonce: 2}}); err != nil {
		t.Errorf("a write waits for a proxy that stands still: %v", err)
	}
}
