package shared

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
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

// TestTortureShared is the promise of section 3 at once: several proxies over
// one store; random tokens on few keys, so that every key moves between them
// all the time; and all that may be done to them. The long form is set by
// FENCEPROXY_TORTURE_SEED, _WRITES and _FAULTS; one seed draws the same writes
// and faults, though not the same interleaving.
func TestTortureShared(t *testing.T) {
	seed := number(t, "FENCEPROXY_TORTURE_SEED", 1)
	writes := number(t, "FENCEPROXY_TORTURE_WRITES", 1_500)
	faults := number(t, "FENCEPROXY_TORTURE_FAULTS", 7)
	everyEngine(t, func(t *testing.T, start func() (engine, error)) {
		proxies := 2
		if filepath.Base(t.Name()) == "etcd" {
			proxies = 3
		}
		s := &storm{seed: uint64(seed), clients: 24, keys: 6, writes: int64(writes), faults: faults}
		if writes > 10_000 { // each key waits most of the time for what was lost from sight
			s.clients, s.keys = 128, 32
		}
		s.fleet = newFleet(t, start, proxies, torture.Settings{Response: response, Drain: drain, BodyLimit: "8KiB",
			Store: torture.Shared{TTL: stormTTL, Margin: stormMargin, Linger: stormLinger}})
		begin := time.Now()
		if err := s.run(time.Minute + time.Duration(writes)*20*time.Millisecond + time.Duration(faults)*10*time.Second); err != nil {
			t.Error(err)
		}
		took := time.Since(begin)
		tally := torture.Count(s.h.Events())
		t.Logf("seed %d, %d proxies, %v, %.0f writes/s, faults %v, waits for other proxies %d\n%+v",
			seed, proxies, took.Round(time.Millisecond), float64(tally.Sent)/took.Seconds(), s.done, s.waits.Load(), tally)
		s.judge()
		for _, q := range tally.Quiet() {
			t.Error(q)
		}
		s.lively(tally)
	})
}

// lively fails a storm in which too little was let in, or too little done, to
// have shown anything.
func (s *storm) lively(tally torture.Tally) {
	s.Helper()
	for i := range s.kept {
		if n := s.kept[i].Load(); n < s.writes/20 {
			s.Errorf("proxy %s let in %d writes, which shows little", s.members[i].name, n)
		}
	}
	if n := tally.Sent - tally.Refused; tally.Kept < n/3 {
		s.Errorf("of %d writes only %d were done", n, tally.Kept)
	}
	if s.waits.Load() == 0 {
		s.Error("no proxy waited for another")
	}
	for _, what := range []string{"stopped", "killed", "cut off from the store", "cut off from the store alone", "stopped while cut off from the store",
		"thrown out by the store", "cut off from the backend", "thrown out by the backend", "ended"} {
		if s.done[what] == 0 {
			s.Errorf("nobody was %s", what)
		}
	}
}
