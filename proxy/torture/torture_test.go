package torture

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// number reads a variable of the long form.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a number above 0", name, s)
	}
	return n
}

// The times of an ordeal. A reload makes them longer by half, at the most.
const (
	ordealSettle   = 600 * time.Millisecond
	ordealResponse = 600 * time.Millisecond
	ordealDrain    = 3 * time.Second
	// ordealBound is how long a client waits at the most: for older writes, for
	// the upstream, for a pause and a silence, and for itself; a busy machine may
	// add some seconds.
	ordealBound = 2*ordealDrain + 2*ordealResponse + 2*ordealSettle + 5*time.Second
)

// ordealLimits are what its history is judged by.
var ordealLimits = Limits{Settle: ordealSettle, Bound: ordealBound, Unsettled: map[uint16]bool{202: true, 502: true, 504: true}}

// ordeal is a proxy, a backend, and all that is done to them in one run.
type ordeal struct {
	*site
	run     Run
	striker *Striker
	steps   []Step
	clients *Relay
}

// newOrdeal draws all of it from the seed: the writes, the blows and the harms.
func newOrdeal(t *testing.T, bin string, http2 bool, seed uint64, writes, kills int) *ordeal {
	o := &ordeal{steps: Schedule(seed, kills)}
	front := Harms{Seed: seed + 1<<32, PerMille: 12, There: 1 << 10, Back: 500, Delay: 100 * time.Millisecond}
	back := Harms{Seed: seed, PerMille: 10, There: 4 << 10, Back: 1 << 10, Delay: 100 * time.Millisecond, Whole: true}
	if http2 { // few connections, each with much on it
		front.PerMille, front.There, front.Back = 80, 4<<10, 2<<10
		back.PerMille, back.There, back.Back = 80, 8<<10, 2<<10
	}
	s := newSiteOf(t, bin, Settings{
		HTTP2: http2, Settle: ordealSettle, Response: ordealResponse, Drain: ordealDrain, Shutdown: 2 * time.Second, BodyLimit: "8KiB",
	}, func(h *History, to string) *Relay {
		return wire(t, h, "proxy and backend", to, RelayOptions{Drops: true, Harm: back.Of})
	})
	o.site = s
	o.clients = wire(t, s.h, "client and proxy", s.proxy.Addr, RelayOptions{Harm: front.Of})
	s.lim = ordealLimits
	clients, keys := 64, 16
	if writes > 100_000 { // each key waits most of the time for what was lost from sight
		clients, keys = 320, 64
	}
	o.run = Run{
		Seed: seed, Clients: clients, Keys: keys, Writes: writes, Blows: len(o.steps), Addr: s.proxy.Addr, Relay: o.clients, H: s.h,
		Draw:   Draw{Patience: ordealResponse, Late: s.lim.Settle / 6, Buffer: 8 << 10, Silence: ordealBound + time.Second},
		Strike: func(i int) error { return o.striker.Strike(o.steps[i]) },
	}
	if http2 {
		o.run.Streams = clients / 16
	}
	o.striker = &Striker{Proxy: s.proxy, H: s.h, Clients: o.clients, Backend: s.wire, Settings: s.settings, Codes: map[int]int{}}
	for i := range o.run.Keys {
		o.striker.Keys = append(o.striker.Keys, keyName(i))
	}
	return o
}

// wire is a relay whose harms are told in the history.
func wire(t *testing.T, h *History, between, to string, opts RelayOptions) *Relay {
	opts.Told = func(harm Harm) {
		way := "there"
		if harm.Back {
			way = "back"
		}
		h.Add(Event{Kind: Fault, Name: harm.How + " between " + between, Result: fmt.Sprintf("after %d bytes of the way %s, for %v", harm.After, way, harm.Wait)})
	}
	r, err := StartRelay(to, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// TestTorture is the whole promise at once: 64 clients (320 in the long form),
// random tokens on 16 keys (64), a backend that delays, drops and applies late, clients that stall and
// leave, a network that harms their connections, and a proxy that is killed
// again and again, stopped, reloaded, and left without a disk. The long form is
// set by FENCEPROXY_TORTURE_SEED, _WRITES and _KILLS; one seed draws the same
// writes, harms and blows, though not the same interleaving.
func TestTorture(t *testing.T) { torture(t, false, 20_000, 12) }

// TestTortureHTTP2 is the same with a backend that speaks HTTP/2, and with three
// clients in four on HTTP/2 connections that they share, twelve on each: what is
// lost, refused or reset is a stream then, and its connection goes on with the
// others.
func TestTortureHTTP2(t *testing.T) { torture(t, true, 3_000, 6) }

// torture runs an ordeal; writes and kills are those of the short form.
func torture(t *testing.T, http2 bool, writes, kills int) {
	t.Helper()
	seed := number(t, "FENCEPROXY_TORTURE_SEED", 1)
	writes = number(t, "FENCEPROXY_TORTURE_WRITES", writes)
	kills = number(t, "FENCEPROXY_TORTURE_KILLS", kills)
	bin, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d, %d writes, %d kills", seed, writes, kills)
	o := newOrdeal(t, bin, http2, uint64(seed), writes, kills)
	fresh := o.atRest()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(writes)*10*time.Millisecond+time.Duration(kills)*5*time.Second)
	defer cancel()
	begin := time.Now()
	if err := o.run.Do(ctx); err != nil {
		t.Error(err)
	} else {
		o.nothingLeft(fresh)
	}
	took := time.Since(begin)
	o.judge()
	o.porcupine()
	o.tell(took)
	if t.Failed() {
		o.h.Keep(t)
		t.Logf("the same again: make torture ONLY=%s SEED=%d WRITES=%d KILLS=%d; the judges alone: FENCEPROXY_TORTURE_HISTORY=FILE go test -v -run TestSavedHistory ./proxy/torture", t.Name(), seed, writes, kills)
	}
}

// TestSavedHistory judges once more what a run has saved, see
// FENCEPROXY_TORTURE_HISTORY.
func TestSavedHistory(t *testing.T) {
	path := os.Getenv("FENCEPROXY_TORTURE_HISTORY")
	if path == "" {
		t.Skip("FENCEPROXY_TORTURE_HISTORY names no file")
	}
	h, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range Verdict(h, ordealLimits) {
		t.Error(bad)
	}
	t.Logf("%+v", Count(h))
}

// tell prints what happened, and fails where that was too little.
func (o *ordeal) tell(took time.Duration) {
	o.Helper()
	events := o.h.Events()
	tally, faults := Count(events), Faults(events)
	var lines strings.Builder
	for _, what := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(&lines, "\n  %5d × %s", faults[what], what)
	}
	o.Logf("seed %d: %d writes in %v (%.0f/s), %d starts, the test itself late by up to %v, exit codes after SIGTERM %v, faults:%s\n%+v",
		o.run.Seed, tally.Sent, took.Round(time.Millisecond), float64(tally.Sent)/took.Seconds(), tally.Starts, o.back.Late().Round(time.Millisecond), o.striker.Codes, lines.String(), tally)
	for _, q := range tally.Quiet() {
		o.Error(q)
	}
	for i, n := range tally.Parted {
		if n == 0 {
			o.Errorf("no connection parted in phase %d of 4", i+1)
		}
	}
	if tally.Sent < o.run.Writes {
		o.Errorf("%d writes, want %d", tally.Sent, o.run.Writes)
	}
	for _, st := range o.steps {
		if faults[string(st.Blow)] == 0 {
			o.Errorf("nobody was %s", st.Blow)
		}
	}
	for _, how := range []string{HarmDelay, HarmCut, HarmReset, HarmTruncate} {
		for _, where := range []string{"client and proxy", "proxy and backend"} {
			if what := how + " between " + where; faults[what] == 0 {
				o.Errorf("there was no %s", what)
			}
		}
	}
}
