package torture

import (
	"context"
	"os"
	"strconv"
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

// TestTorture is the whole promise at once: 64 clients, random tokens on 8
// keys, a backend that delays, drops and applies late, clients that stall and
// leave, and a proxy that is killed again and again. The long form is set by
// FENCEPROXY_TORTURE_SEED, _WRITES and _KILLS; one seed draws the same writes,
// though not the same interleaving.
func TestTorture(t *testing.T) {
	const response = 400 * time.Millisecond
	seed := number(t, "FENCEPROXY_TORTURE_SEED", 1)
	writes := number(t, "FENCEPROXY_TORTURE_WRITES", 20_000)
	kills := number(t, "FENCEPROXY_TORTURE_KILLS", 12)
	stops := max(2, kills/10)
	t.Logf("seed %d, %d writes, %d kills, %d stops", seed, writes, kills, stops)

	s := newSite(t, Settings{
		Settle: 300 * time.Millisecond, Response: response, Drain: 3 * time.Second, Shutdown: 1500 * time.Millisecond, BodyLimit: "8KiB",
	})
	codes := map[int]int{}
	run := Run{
		Seed: uint64(seed), Clients: 64, Keys: 8, Writes: writes, Ends: kills + stops, Addr: s.proxy.Addr, H: s.h,
		Draw: Draw{Patience: response, Late: s.lim.Settle / 3, Buffer: 8 << 10},
		End: func(i int) error {
			if every := (kills + stops) / stops; i%every != every-1 {
				s.proxy.Kill()
				return s.proxy.Start()
			}
			s.proxy.Terminate()
			code, err := s.proxy.Wait(10 * time.Second)
			if err != nil {
				return err
			}
			codes[code]++
			return s.proxy.Start()
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(writes)*10*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := run.Do(ctx); err != nil {
		t.Error(err)
	}
	took := time.Since(begin)
	s.judge()

	tally := Count(s.h.Events())
	t.Logf("%v, %.0f writes/s, exit codes after SIGTERM %v\n%+v", took.Round(time.Millisecond), float64(tally.Sent)/took.Seconds(), codes, tally)
	for _, q := range tally.Quiet() {
		t.Error(q)
	}
	if tally.Sent < writes || tally.Starts < kills+stops {
		t.Errorf("%d writes and %d starts, want %d and %d", tally.Sent, tally.Starts, writes, kills+stops)
	}
	for code, n := range codes {
		if code != 0 && code != 3 {
			t.Errorf("exit code %d after SIGTERM, %d times: want 0 or 3", code, n)
		}
	}
	if t.Failed() {
		s.keepHistory()
	}
}
