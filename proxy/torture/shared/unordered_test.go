package shared

import (
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// storeLate is what is said of a write that is only looked on, where the store
// was not there in time.
const storeLate = "would-reject;reason=store-unavailable"

// A write without a token at A is slow. One with a token at B waits for it, and
// for no later one: not where the token is new, nor where B has to ask for one
// that is on record already.
func TestUnorderedElsewhere(t *testing.T) {
	everyEngine(t, func(t *testing.T, start func() (engine, error)) {
		f := newFleet(t, start, 2, torture.Settings{Tokens: "optional"})
		a, b := f.members[0], f.members[1]
		for _, token := range []uint64{1, 2} {
			if token == 2 {
				f.ok(a, "k", 2) // it is on record before
			}
			u := f.held("k", 0)
			u.Bare = true
			ru := f.goes(a, u)
			f.arrives(u, prompt)
			w := f.write("k", token)
			rw := f.goes(b, w)
			time.Sleep(300 * time.Millisecond)
			if f.when(torture.Arrive, w) != 0 {
				t.Errorf("the write with token %d arrived, and one without was there before it", token)
			}
			later := f.write("k", 0)
			later.Bare = true
			r := f.do(a, later)
			f.wants(r, 200, "", "yes")
			if got := r.Header.Get("Fencing-Result"); got != "admitted" {
				t.Errorf("Fencing-Result: %q", got)
			}
			f.back.Release(u.ID)
			f.wants(f.get(ru), 200, "", "yes")
			f.wants(f.get(rw), 200, "", "yes")
		}
		f.fault("A is cut off from the store")
		a.store.Hold(true)
		time.Sleep(ttl)
		late := f.write("k", 0)
		late.Bare = true
		f.wants(f.do(a, late), 503, storeUnavailable, "no")
		f.judge()
	})
}

// Its client stalls in its upload: it is cut, and B waits for settle, not for
// that client.
func TestUnorderedUploadIsHurriedElsewhere(t *testing.T) {
	everyEngine(t, func(t *testing.T, start func() (engine, error)) {
		f := newFleet(t, start, 2, torture.Settings{Tokens: "optional", BodyLimit: "8KiB"})
		a, b := f.members[0], f.members[1]
		u := upload(f.write("k", 0))
		u.Bare = true
		ru := f.goes(a, u)
		f.arrives(u, prompt)
		begun := f.h.Now()
		w := f.write("k", 1)
		rw := f.goes(b, w)
		r := f.get(ru)
		f.wants(r, 502, outcomeUnknown, "unknown")
		if r.At-begun > 5*time.Second {
			t.Errorf("u was told %v after the raise", r.At-begun)
		}
		f.wants(f.get(rw), 200, "", "yes")
		lost := f.when(torture.Lost, u)
		if at := f.when(torture.Arrive, w); lost == 0 || at < lost+settle-20*time.Millisecond || at > lost+settle+5*time.Second {
			t.Errorf("w arrived at %v, u was cut at %v: want settle, %v, between them", at, lost, settle)
		}
		f.judge()
	})
}

// One proxy only looks on, the other enforces already: what A lets pass holds
// B's newer writes up, the refused ones too, and A lets everything pass, without
// the store as well.
func TestObserveBesideEnforce(t *testing.T) {
	everyEngine(t, func(t *testing.T, start func() (engine, error)) {
		f := newFleet(t, start, 1, torture.Settings{Observe: true})
		a := f.members[0]
		b := f.newMember("B", torture.Settings{Settle: settle, Response: 20 * time.Second, Drain: 20 * time.Second,
			Store: torture.Shared{TTL: ttl, Margin: margin, Linger: linger}})
		if err := b.start(); err != nil {
			t.Fatal(err)
		}
		result := func(r torture.Reaction, want string) {
			t.Helper()
			f.wants(r, 200, "", "yes")
			if got := r.Header.Get("Fencing-Result"); got != want {
				t.Errorf("Fencing-Result: %q, want %q", got, want)
			}
		}
		// A write that is only looked on waits a second for the store, and goes on as
		// one that nobody waits for. Once A holds what it asks for it needs no store.
		holds := func(key string, token uint64, want string) {
			t.Helper()
			var r torture.Reaction
			f.eventually(prompt, "A has been answered by the store in time", func() bool {
				sent := f.h.Now()
				r = f.do(a, f.write(key, token))
				return r.At-sent < 900*time.Millisecond && r.Header.Get("Fencing-Result") != storeLate
			})
			result(r, want)
		}
		holds("k", 1, "admitted")
		o1 := f.held("k", 1)
		r1 := f.goes(a, o1)
		f.arrives(o1, prompt)
		w2 := f.write("k", 2)
		r2 := f.goes(b, w2)
		time.Sleep(300 * time.Millisecond)
		if f.when(torture.Arrive, w2) != 0 {
			t.Error("w2 arrived, and o1 was there before it")
		}
		f.back.Release(o1.ID)
		result(f.get(r1), "admitted")
		result(f.get(r2), "admitted")
		holds("k", 1, "would-reject;reason=stale-token")
		stale := f.held("k", 1)
		rs := f.goes(a, stale)
		f.arrives(stale, prompt)
		w3 := f.write("k", 3)
		r3 := f.goes(b, w3)
		time.Sleep(300 * time.Millisecond)
		if f.when(torture.Arrive, w3) != 0 {
			t.Error("w3 arrived, and one that A would have refused was there before it")
		}
		f.back.Release(stale.ID)
		result(f.get(rs), "would-reject;reason=stale-token")
		result(f.get(r3), "admitted")

		holds("other", 7, "admitted")
		slow := f.held("other", 7)
		rslow := f.goes(a, slow)
		f.arrives(slow, prompt)
		f.fault("A is cut off from the store")
		a.store.Hold(true)
		time.Sleep(ttl)
		result(f.do(a, f.write("k", 4)), storeLate)
		f.back.Release(slow.ID)
		result(f.get(rslow), "admitted") // it is not cut
		a.store.Hold(false)
		f.ready(a)
		holds("k", 5, "admitted")
		for _, m := range []*member{a, b} {
			m.Kill()
		}
		for _, e := range f.h.Events() {
			if e.Kind == torture.Answer && strings.Contains(e.Result, "rejected") && !strings.HasPrefix(e.Result, "would") {
				t.Errorf("write %d was refused: %s", e.ID, e.Result)
			}
		}
	})
}
