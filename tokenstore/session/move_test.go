package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// TestQuarantine: what a store that is gone may still have on its way holds
// back every write on the keys that came from there, of the highest token too
// (story Q), until its linger is over; and no other key.
func TestQuarantine(t *testing.T) {
	inTime(t, func(r *rig) {
		port := r.engine.Port()
		q := session.NewQuarantine(port, ttl)
		records := make([]dump.Record, 40) // more than one step takes
		for i := range records {
			records[i] = dump.Record{Key: tokenstore.Key([]byte{'a', byte(i)}), Record: tokenstore.Record{Highest: tok(uint64(i)), Holder: "h"}}
		}
		records = append(records, dump.Record{Key: "k", Record: tokenstore.Record{Highest: tok(7)}})
		if err := q.Add(t.Context(), records[:20]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl / 2) // long imports have several sessions
		if err := q.Add(t.Context(), records[20:]); err != nil {
			t.Fatal(err)
		}
		if h, alive, err := session.ReadHeader(t.Context(), port); err != nil || h.Clean || alive != 2 {
			t.Errorf("header %+v, %d alive, %v", h, alive, err)
		}
		var stale *tokenstore.StaleError
		if err := q.Add(t.Context(), records[len(records)-1:]); !errors.As(err, &stale) {
			t.Errorf("below a record that is there already: %v", err)
		}
		if rec, ok := r.engine.Record("a\x05"); !ok || rec.Highest != tok(5) || rec.Holder != "h" {
			t.Errorf("record %+v, %v", rec, ok)
		}

		p := r.proxy("p")
		p.ask("lower", 6).mustFail(nil)
		equal, higher := p.ask("equal", 7), p.askFor("other key", tokenstore.Mark{Key: "a\x05", Token: tok(9)})
		p.askFor("key without a record", tokenstore.Mark{Key: "new", Token: tok(1)}).mustBeAdmitted(0)
		time.Sleep(settle - time.Second)
		equal.mustWait()
		higher.mustWait()
		time.Sleep(ttl + settle)
		synctest.Wait()
		if !equal.admitted() || !higher.admitted() {
			t.Errorf("after the quarantine: %v, %v", equal.admitted(), higher.admitted())
		}
	})
}

// TestImportHeader: the rules and epochs of both stores are remembered, the
// higher epoch of each, and nothing where a rule makes other keys.
func TestImportHeader(t *testing.T) {
	inTime(t, func(r *rig) {
		b := r.engine.Port()
		ctx := context.Background()
		for _, h := range []dump.Header{
			{},
			{Rules: tokenstore.Rules{"a": "1", "b": "1"}, Epochs: map[string]uint64{"a": 2, "b": 5}},
			{Rules: tokenstore.Rules{"a": "1", "c": "1"}, Epochs: map[string]uint64{"a": 3, "b": 4}},
		} {
			if err := session.ImportHeader(ctx, b, h); err != nil {
				t.Fatal(err)
			}
		}
		var changed *tokenstore.ChangedRulesError
		if err := session.ImportHeader(ctx, b, dump.Header{Rules: tokenstore.Rules{"b": "2", "d": "1"}}); !errors.As(err, &changed) {
			t.Errorf("changed rules: %v", err)
		}
		h, alive, err := session.ReadHeader(ctx, b)
		if err != nil || alive != 0 || !h.Clean || len(h.Rules) != 3 || h.Rules["b"] != "1" || len(h.Epochs) != 2 || h.Epochs["a"] != 3 || h.Epochs["b"] != 5 {
			t.Errorf("%+v, %d, %v", h, alive, err)
		}
	})
}
