package shared

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

const (
	staleToken       = "stale-token"
	storeUnavailable = "store-unavailable"
	outcomeUnknown   = "outcome-unknown"
)

// everyEngine runs a test over each of them, at the same time: nearly all of it
// is waiting.
func everyEngine(t *testing.T, test func(t *testing.T, start func() (engine, error))) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			test(t, e.start)
		})
	}
}

// upload is a write whose client stalls behind more than the proxy reads ahead.
func upload(w torture.Write) torture.Write {
	w.Body, w.StallAfter, w.Stall = 64<<10, 32<<10, -1
	return w
}

// X1: A is cut off from the store alone, with a write in flight. At its deadline
// it cuts that one, refuses what comes, and says that it is not ready; B waits
// for it until linger is over, and A comes back by itself.
func TestStoryX1(t *testing.T) {
	everyEngine(t, func(t *testing.T, start func() (engine, error)) {
		f := newFleet(t, start, 2, torture.Settings{})
		a, b := f.members[0], f.members[1]
		w1 := f.held("k", 1)
		r1 := f.goes(a, w1)
		f.arrives(w1, prompt)
		cut := f.fault("A is cut off from the store")
		a.store.Hold(true)
		// An equal token needs no store, up to the deadline: which has come where the
		// machine stood still.
		if r := f.do(a, f.write("k", 1)); r.Status != 503 || r.At < cut+(ttl-margin)/2 {
			f.wants(r, 200, "", "yes")
		}
		w2 := f.write("k", 2)
		r2 := f.goes(b, w2)
		f.eventually(prompt, "w1 is cut", func() bool { return f.when(torture.Lost, w1) > 0 })
		lost := f.when(torture.Lost, w1) // or later, where the test stood still
		if seen, _ := f.h.Find(torture.Lost, w1.ID); seen.At < cut+(ttl-margin)/2 || lost > cut+ttl {
			t.Errorf("w1 was cut between %v and %v after A had been cut off, want about %v", lost-cut, seen.At-cut, ttl-margin)
		}
		f.wants(f.get(r1), 502, outcomeUnknown, "unknown")
		f.wants(f.do(a, f.write("k", 1)), 503, storeUnavailable, "no")
		f.wants(f.do(a, f.write("other", 1)), 503, storeUnavailable, "no")
		if status, text := a.ask("/readyz"); status != 503 || !strings.Contains(text, "session") {
			t.Errorf("/readyz of A: %d, %q", status, text)
		}
		if at := f.arrives(w2, gone+prompt); at < lost+settle {
			t.Errorf("w2 arrived %v after w1 was cut, want %v at least", at-lost, settle)
		}
		f.wants(f.get(r2), 200, "", "yes")
		f.fault("A and the store see each other again")
		a.store.Hold(false)
		f.ready(a)
		f.wants(f.do(a, f.write("k", 1)), 409, staleToken, "no")
		f.ok(a, "k", 3)
		f.ok(b, "k", 4)
		f.judge()
	})
}

// X2: A is stopped (SIGSTOP) past its deadline, with one write in flight and one
// that it has not sent. The one is cut when A wakes up, the other is never sent;
// B has waited for both.
func TestStoryX2(t *testing.T) {
	everyEngine(t, func(t *testing.T, start func() (engine, error)) {
		// Of linger: the pause is within A7, and longer than the store keeps the
		// session. One that it still has, A might confirm before it looks at its clock.
		const long = 12 * time.Second
		f := newFleet(t, start, 2, torture.Settings{Store: torture.Shared{Linger: long}})
		a, b := f.members[0], f.members[1]
		w1 := f.held("k", 1)
		r1 := f.goes(a, w1)
		f.arrives(w1, prompt)
		// Its client sends the rest once A stands still.
		unsent := f.write("k", 1)
		rest := make(chan struct{})
		unsent.Body, unsent.StallAfter, unsent.Stall, unsent.Rest = 200, 100, -1, rest
		ru := f.goes(a, unsent)
		time.Sleep(200 * time.Millisecond)
		f.fault("A is stopped")
		a.Pause()
		w2 := f.write("k", 2)
		r2 := f.goes(b, w2)
		time.Sleep(time.Second) // the last of its threads has stopped by then
		close(rest)
		time.Sleep((long+margin-settle)/2 - 1100*time.Millisecond)
		f.fault("A goes on")
		a.Resume()
		// Whichever A sees first as it wakes up: its deadline, or B's raise, which
		// waits in its connection to the store.
		if r := f.get(ru); r.Problem.Name() == staleToken {
			f.wants(r, 409, staleToken, "no")
		} else {
			f.wants(r, 503, storeUnavailable, "no")
		}
		if r := f.get(r1); r.Problem.Name() != outcomeUnknown {
			t.Errorf("w1: status %d, %q, want %s", r.Status, r.Problem.Name(), outcomeUnknown)
		}
		at := f.arrives(w2, gone+long+prompt)
		if lost := f.when(torture.Lost, w1); lost == 0 || at < lost+settle-20*time.Millisecond {
			t.Errorf("w2 arrived at %v, and w1 was cut at %v: want settle, %v, between them", at, lost, settle)
		}
		f.wants(f.get(r2), 200, "", "yes")
		f.ready(a)
		f.wants(f.do(a, f.write("k", 1)), 409, staleToken, "no")
		f.ok(a, "k", 2)
		f.judge()
	})
}

// A raise at B overtakes an upload at A that is not wholly sent: it is cut, its
// client is told, and B waits for settle.
func TestRaiseCutsUploadElsewhere(t *testing.T) {
	everyEngine(t, func(t *testing.T, start func() (engine, error)) {
		f := newFleet(t, start, 2, torture.Settings{BodyLimit: "8KiB"})
		a, b := f.members[0], f.members[1]
		w1 := upload(f.write("k", 1))
		r1 := f.goes(a, w1)
		f.arrives(w1, prompt)
		w2 := f.write("k", 2)
		begun := f.h.Now()
		r2 := f.goes(b, w2)
		r := f.get(r1)
		f.wants(r, 409, staleToken, "unknown")
		if got := r.Header.Get("Fencing-Result"); got != "rejected;reason=stale-token" {
			t.Errorf("Fencing-Result: %q", got)
		}
		if r.At-begun > 5*time.Second {
			t.Errorf("w1 was told %v after the raise", r.At-begun)
		}
		f.wants(f.get(r2), 200, "", "yes")
		lost := f.when(torture.Lost, w1)
		if at := f.when(torture.Arrive, w2); lost == 0 || at < lost+settle-20*time.Millisecond || at > lost+settle+5*time.Second {
			t.Errorf("w2 arrived at %v, w1 was cut at %v: want settle, %v, between them", at, lost, settle)
		}
		f.judge()
	})
}

// Proxies with different rules would make different keys of one resource: the
// second one is refused, and says which rule it is.
func TestDifferentRulesAreRefused(t *testing.T) {
	everyEngine(t, func(t *testing.T, start func() (engine, error)) {
		f := newFleet(t, start, 1, torture.Settings{})
		f.ok(f.members[0], "k", 1)
		other := f.newMember("B", torture.Settings{Settle: settle, Key: "object:{id}",
			Store: torture.Shared{TTL: ttl, Margin: margin, Linger: linger}})
		err := other.start()
		if err == nil || !strings.Contains(err.Error(), "exit status 2") || !strings.Contains(err.Error(), "things") {
			t.Errorf("a start with another key gave %v, want exit status 2 and the rule's name", err)
		}
		f.ok(f.members[0], "k", 2)
		f.judge()
	})
}

// A token that a proxy holds costs no round trip, and its writes are no raises
// (R4); nor is the first one of a token that another proxy has raised.
func TestHeldTokenAsksNobody(t *testing.T) {
	everyEngine(t, func(t *testing.T, start func() (engine, error)) {
		f := newFleet(t, start, 2, torture.Settings{})
		m, other := f.members[0], f.members[1]
		for range 20 {
			f.ok(m, "k", 1)
		}
		f.ok(other, "k", 1)
		// A write may be counted behind its answer.
		counted := func(m *member, writes int) (text string) {
			t.Helper()
			f.eventually(prompt, "all is counted", func() bool {
				_, text = m.ask("/metrics")
				return strings.Contains(text, fmt.Sprintf("fenceproxy_requests_total{decision=\"admitted\",rule=\"things\"} %d\n", writes))
			})
			return text
		}
		if text := counted(other, 1); strings.Contains(text, "fenceproxy_raises_total{") || !strings.Contains(text, `fenceproxy_store_seconds_count{op="acquire"} 1`) {
			t.Error("a token on record counts as raised, or no round trip was made for it")
		}
		text := counted(m, 20)
		for _, line := range []string{`fenceproxy_raises_total{rule="things"} 1`, `fenceproxy_store_seconds_count{op="acquire"} 1`} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("after 20 writes with one token the metrics have no line %s", line)
			}
		}
		f.judge()
	})
}

// A write at B waits for one at A. Which keys are busy each tells of what it has
// itself, but for the highest token, which it hears of; and nothing once both are
// over, though both hold the key still.
func TestBusyKeysOfEachProxy(t *testing.T) {
	everyEngine(t, func(t *testing.T, start func() (engine, error)) {
		f := newFleet(t, start, 2, torture.Settings{Store: torture.Shared{TTL: time.Minute, Margin: margin}})
		a, b := f.members[0], f.members[1]
		w1 := f.held("k", 1)
		r1 := f.goes(a, w1)
		f.arrives(w1, prompt)
		r2 := f.goes(b, f.write("k", 2))
		f.busy(b, `thing:k +2 +- +- +1 +things +-\n`)
		f.busy(a, `thing:k +2 +1 for \S+ +- +- +things +-\n`)
		f.back.Release(w1.ID)
		f.wants(f.get(r1), 200, "", "yes")
		f.wants(f.get(r2), 200, "", "yes")
		f.busy(a, "")
		f.busy(b, "")
		f.judge()
	})
}

// busy waits until keys list --busy prints just these rows for m.
func (f *fleet) busy(m *member, rows string) {
	f.Helper()
	want := regexp.MustCompile(`^KEY +HIGHEST +IN FLIGHT +UNSETTLED +WAITING +RULE +WHY\n` + rows + `$`)
	f.eventually(prompt, fmt.Sprintf("keys list --busy at %s prints %q", m.name, rows), func() bool {
		out, err := m.Keys("list", "--busy")
		return err == nil && want.MatchString(out)
	})
}
