package torture

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var testLimits = Limits{Settle: 300 * time.Millisecond, Unsettled: map[uint16]bool{202: true, 502: true, 504: true}}

// tale writes a history down: each event one after the other, a millisecond
// apart unless At says otherwise.
func tale(events ...Event) []Event {
	var now time.Duration
	for i := range events {
		now = max(now+time.Millisecond, events[i].At)
		events[i].At = now
	}
	return events
}

func ev(kind Kind, id uint32, token uint64) Event {
	return Event{Kind: kind, ID: id, Key: "k", Token: token}
}

func (e Event) status(n uint16) Event       { e.Status = n; return e }
func (e Event) after(d time.Duration) Event { e.At = d; return e }
func (e Event) forwarded(s string) Event    { e.Forwarded = s; return e }
func (e Event) named(s string) Event        { e.Name = s; return e }
func (e Event) on(key string) Event         { e.Key = key; return e }
func (e Event) stale(high uint64) Event {
	e.Status, e.Name, e.Highest = 409, staleToken, high
	return e
}
func write(id uint32, token uint64) []Event {
	return []Event{ev(Send, id, token), ev(Arrive, id, token), ev(Apply, id, token), ev(Respond, id, token).status(200), ev(Answer, id, token).status(200).forwarded("yes")}
}

func TestJudges(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		events []Event
		caught string // the judge that must speak; "" for a good history
	}{
		{"two writes in order", slices.Concat(write(1, 1), write(2, 2)), ""},
		{"equal tokens", slices.Concat(write(1, 2), write(2, 2)), ""},
		{"an older token on another key", slices.Concat(write(1, 2), []Event{ev(Send, 2, 1).on("other"), ev(Arrive, 2, 1).on("other"), ev(Apply, 2, 1).on("other")}), ""},
		{"equal tokens at once", []Event{ev(Send, 1, 2), ev(Send, 2, 2), ev(Arrive, 1, 2), ev(Arrive, 2, 2), ev(Apply, 2, 2), ev(Apply, 1, 2)}, ""},
		{"applied after a higher one", []Event{ev(Apply, 2, 2), ev(Apply, 1, 1)}, "applied tokens never decrease"},
		{"applied twice", []Event{ev(Apply, 1, 1), ev(Apply, 1, 1)}, "no write is sent or applied twice"},
		{"sent twice", []Event{ev(Arrive, 1, 1), ev(Drop, 1, 1), ev(Arrive, 1, 1)}, "no write is sent or applied twice"},
		{"200 without effect", []Event{ev(Send, 1, 1), ev(Answer, 1, 1).status(200)}, "a 2xx was applied"},
		{"200 before the effect", []Event{ev(Answer, 1, 1).status(201), ev(Apply, 1, 1)}, "a 2xx was applied"},
		{"202 without effect", []Event{ev(Send, 1, 1), ev(Arrive, 1, 1), ev(Answer, 1, 1).status(202)}, ""},
		{"denied and arrived", []Event{ev(Arrive, 1, 1), ev(Answer, 1, 1).status(502).forwarded("no")}, "what was not forwarded never arrived"},
		{"denied and arrives later", []Event{ev(Answer, 1, 1).status(503).forwarded("no"), ev(Arrive, 1, 1)}, "what was not forwarded never arrived"},
		{"claimed and never arrived", []Event{ev(Answer, 1, 1).status(500).forwarded("yes")}, "what was not forwarded never arrived"},
		{"stale", []Event{ev(Send, 2, 2), ev(Send, 1, 1), ev(Answer, 1, 1).stale(2)}, ""},
		{"stale against itself", []Event{ev(Send, 1, 1), ev(Answer, 1, 1).stale(1)}, "a stale token is lower"},
		{"stale against nobody", []Event{ev(Send, 1, 1), ev(Answer, 1, 1).stale(7)}, "a stale token is lower"},
		{"stale against another key", []Event{ev(Send, 2, 7).on("other"), ev(Send, 1, 1), ev(Answer, 1, 1).stale(7)}, "a stale token is lower"},
		{"stale with another status", []Event{ev(Send, 2, 2), ev(Send, 1, 1), ev(Answer, 1, 1).stale(2).status(412)}, "a stale token is lower"},
		{"forgotten after an arrival", slices.Concat(write(2, 2), []Event{{Kind: Kill}, {Kind: Start}, ev(Send, 1, 1), ev(Arrive, 1, 1)}), "a stale token is refused for ever"},
		{"forgotten after a refusal", []Event{ev(Send, 3, 3), ev(Send, 1, 1), ev(Answer, 1, 1).stale(3), {Kind: Kill}, {Kind: Start}, ev(Send, 2, 2), ev(Arrive, 2, 2)}, "a stale token is refused for ever"},
		{"admitted though lower", slices.Concat(write(2, 2), []Event{ev(Send, 1, 1), ev(Answer, 1, 1).status(502).forwarded("no")}), "a stale token is refused for ever"},
		{"sent before the higher one was known", []Event{ev(Send, 1, 1), ev(Send, 2, 2), ev(Arrive, 1, 1), ev(Respond, 1, 1).status(200), ev(Arrive, 2, 2)}, ""},
		{"503 for a lower one", slices.Concat(write(2, 2), []Event{ev(Send, 1, 1), ev(Answer, 1, 1).status(503).named(shuttingDown)}), ""},
		{"overlap", []Event{ev(Arrive, 1, 1), ev(Arrive, 2, 2)}, "a newer write waits"},
		{"older arrives later", []Event{ev(Arrive, 2, 2), ev(Respond, 2, 2).status(200), ev(Arrive, 1, 1)}, "a newer write waits"},
		{"too soon after a reset", []Event{ev(Arrive, 1, 1), ev(Drop, 1, 1), ev(Arrive, 2, 2).after(270 * ms)}, "a newer write waits"},
		{"settle after a reset", []Event{ev(Arrive, 1, 1), ev(Drop, 1, 1), ev(Arrive, 2, 2).after(310 * ms)}, ""},
		{"too soon after a 202", []Event{ev(Arrive, 1, 1), ev(Respond, 1, 1).status(202), ev(Arrive, 2, 2).after(290 * ms)}, "a newer write waits"},
		{"at once after a 500", []Event{ev(Arrive, 1, 1), ev(Respond, 1, 1).status(500), ev(Arrive, 2, 2)}, ""},
		{"too soon after the proxy gave up", []Event{ev(Arrive, 1, 1), ev(Lost, 1, 1), ev(Arrive, 2, 2).after(90 * ms)}, "a newer write waits"},
		{"an answer after the proxy gave up", []Event{ev(Arrive, 1, 1), ev(Lost, 1, 1), ev(Respond, 1, 1).status(200), ev(Arrive, 2, 2).after(90 * ms)}, "a newer write waits"},
		{"too soon after a start", []Event{ev(Arrive, 1, 1), Event{Kind: Start}.after(100 * ms), ev(Arrive, 2, 2).after(390 * ms)}, "a newer write waits"},
		{"settle after a start", []Event{ev(Arrive, 1, 1), Event{Kind: Start}.after(100 * ms), ev(Arrive, 2, 2).after(400 * ms)}, ""},
		{"seen late that the proxy gave up", []Event{ev(Arrive, 1, 1), Event{Kind: Lost, ID: 1, Key: "k", Token: 1, Since: 2 * ms}.after(200 * ms), ev(Arrive, 2, 2)}, ""},
		{"dropped late", []Event{ev(Arrive, 1, 1), Event{Kind: Drop, ID: 1, Key: "k", Token: 1, Since: 2 * ms}.after(200 * ms), ev(Arrive, 2, 2).after(310 * ms)}, ""},
		{"in the store", slices.Concat(write(1, 2), []Event{ev(Stored, 0, 2)}), ""},
		{"more in the store than was told", slices.Concat(write(1, 2), []Event{ev(Stored, 0, 9)}), ""},
		{"told after the store was read", slices.Concat([]Event{ev(Stored, 0, 1)}, write(1, 2)), ""},
		{"not in the store", slices.Concat(write(1, 2), []Event{ev(Stored, 0, 0)}), "what was told is in the store"},
		{"a drain timeout that is not in the store", []Event{ev(Send, 1, 2), ev(Answer, 1, 2).status(503).named("drain-timeout"), ev(Stored, 0, 1)}, "what was told is in the store"},
		{"refused by the parser", slices.Concat(write(2, 2), []Event{ev(Send, 1, 1), ev(Answer, 1, 1).status(400), ev(Stored, 0, 2)}), ""},
		{"no answer", []Event{ev(Send, 1, 1), ev(Gone, 1, 1).named(Silent)}, "every client gets its answer"},
		{"client left", []Event{ev(Send, 1, 1), ev(Gone, 1, 1).named(Left)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := Verdict(tale(c.events...), testLimits)
			switch {
			case c.caught == "" && len(found) > 0:
				t.Errorf("a good history was found bad: %q", found)
			case c.caught != "" && !slices.ContainsFunc(found, func(s string) bool { return strings.HasPrefix(s, c.caught) }):
				t.Errorf("found %q, want a breach of %q", found, c.caught)
			}
		})
	}
}

// Each judge has a small history that breaks its promise and no other one.
func TestEachJudgeAlone(t *testing.T) {
	const bound = time.Second
	lim := testLimits
	lim.Bound = bound
	broken := map[string][]Event{
		"applied tokens never decrease":                     {ev(Apply, 2, 2), ev(Apply, 1, 1)},
		"no write is sent or applied twice":                 {ev(Arrive, 1, 1), ev(Drop, 1, 1), ev(Arrive, 1, 1)},
		"a 2xx was applied":                                 {ev(Send, 1, 1), ev(Arrive, 1, 1), ev(Respond, 1, 1).status(200), ev(Answer, 1, 1).status(200).forwarded("yes")},
		"what was not forwarded never arrived":              {ev(Send, 1, 1), ev(Arrive, 1, 1), ev(Answer, 1, 1).status(502).named("upstream-unreachable").forwarded("no")},
		"a stale token is lower than one presented before":  {ev(Send, 2, 2), ev(Send, 1, 1), ev(Answer, 1, 1).stale(2).status(412)},
		"a stale token is refused for ever":                 slices.Concat(write(2, 2), []Event{ev(Send, 1, 1), ev(Answer, 1, 1).status(403).named("token-implausible")}),
		"what was told is in the store":                     {ev(Send, 2, 2), ev(Send, 1, 1), ev(Answer, 1, 1).stale(2), {Kind: Kill}, ev(Stored, 0, 1)},
		"the answers fit one token register":                slices.Concat([]Event{ev(Send, 1, 2), ev(Answer, 1, 2).status(503).named("drain-timeout")}, write(2, 1)),
		"a newer write waits until every older one is over": {ev(Arrive, 1, 1), ev(Drop, 1, 1), ev(Arrive, 2, 2)},
		"every client gets its answer":                      {ev(Send, 1, 1), ev(Gone, 1, 1).named(Silent)},
		"nobody waits longer than the bound":                {ev(Send, 1, 1), ev(Answer, 1, 1).status(503).named("drain-timeout").after(bound + 2*time.Millisecond)},
	}
	for _, j := range Judges() {
		found := Verdict(tale(broken[j.Name]...), lim)
		if len(found) == 0 {
			t.Errorf("%s: nobody speaks", j.Name)
		}
		for _, s := range found {
			if !strings.HasPrefix(s, j.Name+": ") {
				t.Errorf("%s: another one speaks: %s", j.Name, s)
			}
		}
	}
}

func TestVerdictIsShort(t *testing.T) {
	var events []Event
	for i := range uint32(20) {
		events = append(events, ev(Answer, i, 1).status(200))
	}
	if found := Verdict(tale(events...), testLimits); len(found) != maxBreaches+1 || !strings.HasSuffix(found[maxBreaches], "and 15 more") {
		t.Errorf("20 breaches are told as %q", found)
	}
}

func TestTally(t *testing.T) {
	h := tale(slices.Concat(
		[]Event{{Kind: Start}},
		[]Event{ev(Send, 1, 1), ev(Arrive, 1, 1), ev(Send, 9, 1), ev(Arrive, 9, 1), ev(Respond, 9, 1)}, // 9 beside its equal
		[]Event{ev(Send, 2, 2), ev(Send, 3, 3)},                                                        // both behind 1
		[]Event{ev(Answer, 2, 2).stale(3)},                                                             // overtaken
		[]Event{ev(Send, 4, 1), ev(Answer, 4, 1).stale(3)},                                             // stale from the start
		[]Event{ev(Drop, 1, 1), ev(Apply, 1, 1), ev(Answer, 1, 1).status(502).named("outcome-unknown")},
		[]Event{ev(Arrive, 3, 3), ev(Apply, 3, 3), ev(Respond, 3, 3), ev(Answer, 3, 3).status(200)},
		[]Event{ev(Send, 5, 3), ev(Gone, 5, 3).named(Left), {Kind: Kill}, {Kind: Start}},
		[]Event{ev(Send, 6, 3), ev(Answer, 6, 3).status(503)},
	)...)
	want := Tally{Sent: 7, Kept: 1, Stale: 2, Overtaken: 1, Waited: 1, Equal: 1, Unknown: 1, Refused: 1, Late: 1, Dropped: 1, Left: 1, Starts: 1, Parted: [4]int{1, 0, 0, 5}}
	if got := Count(h); got != want {
		t.Errorf("counted\n%+v, want\n%+v", got, want)
	}
	if quiet := want.Quiet(); len(quiet) != 0 {
		t.Errorf("a full run is called quiet: %q", quiet)
	}
	if quiet := Count(tale(write(1, 1)...)).Quiet(); len(quiet) != 8 {
		t.Errorf("a run of one write is quiet in %d ways, want 8: %q", len(quiet), quiet)
	}
}

// A long history is as it was added.
func TestLongHistory(t *testing.T) {
	h := NewHistory()
	const n = 2*chunk + 1
	for i := range uint32(n) {
		h.Add(ev(Send, i, uint64(i)))
	}
	events := h.Events()
	if len(events) != n {
		t.Fatalf("%d events, want %d", len(events), n)
	}
	for i, e := range events {
		if e.ID != uint32(i) || i > 0 && e.At < events[i-1].At {
			t.Fatalf("event %d is %+v", i, e)
		}
	}
	for _, id := range []uint32{0, chunk - 1, chunk, n - 1} {
		if e, ok := h.Find(Send, id); !ok || e.Token != uint64(id) {
			t.Errorf("write %d: %+v, %v", id, e, ok)
		}
	}
	if _, ok := h.Find(Send, n); ok {
		t.Error("a write was found that is not there")
	}
}

func TestSaveAndLoad(t *testing.T) {
	h := tale(slices.Concat(write(1, 1), []Event{ev(Answer, 2, 1).stale(3)})...)
	path := filepath.Join(t.TempDir(), "history.ndjson")
	if err := Save(path, h); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, h) {
		t.Errorf("read back\n%v, want\n%v", got, h)
	}
}
