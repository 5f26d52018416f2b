package torture

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A judge that finds nothing is worth something only where it would have found
// something: the same storm over proxies that are wrong in one way each.
func TestStandinsAreCaught(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  fault
		writes int
		ends   int
		caught []string // the judges that must speak
	}{
		{"sound", sound, 1500, 3, nil},
		{"check then forward", noDrain, 1000, 1, []string{"applied tokens never decrease"}},
		{"forgets at a crash", noRecord, 1500, 10, []string{"a stale token is refused for ever"}},
		{"no quarantine", noQuarantine, 1500, 4, []string{"a newer write waits"}},
		{"sends again", resends, 1000, 1, []string{"no write is sent or applied twice"}},
		{"forgets what failed", noUnsettled, 1000, 1, []string{"a newer write waits"}},
		{"leaves with its client", cancels, 2000, 1, []string{"a newer write waits"}},
		{"says 200 unsent", lies, 500, 1, []string{"a 2xx was applied"}},
		{"denies what it sent", denies, 1000, 1, []string{"what was not forwarded never arrived"}},
		{"guesses", guesses, 500, 1, []string{"a stale token is lower"}},
		{"answers nobody who waited", hangs, 300, 1, []string{"every client gets its answer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, err := stormOverStandin(t, c.fault, c.writes, c.ends)
			found := Verdict(h, testLimits)
			t.Logf("%+v", Count(h))
			if c.caught == nil {
				if err != nil {
					t.Error(err)
				}
				for _, s := range append(found, Count(h).Quiet()...) {
					t.Error(s)
				}
			}
			for _, judge := range c.caught {
				if !slices.ContainsFunc(found, func(s string) bool { return strings.HasPrefix(s, judge) }) {
					t.Errorf("found %q, want a breach of %q", found, judge)
				}
			}
		})
	}
}

func stormOverStandin(t *testing.T, f fault, writes, ends int) ([]Event, error) {
	h := NewHistory()
	b, err := StartBackend(h, BackendOptions{Settle: testLimits.Settle / 3, Patience: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	start := func(disk map[string]uint64) *standin {
		h.Add(Event{Kind: Start})
		s, err := startStandin(addr, b.URL(), f, testLimits.Settle, 400*time.Millisecond, disk)
		if err != nil {
			t.Error(err)
		}
		return s
	}
	s := start(nil)
	leavers := 0
	if f == cancels {
		leavers = 500
	}
	run := Run{
		Seed: 1, Clients: 32, Keys: 4, Writes: writes, Blows: ends, Addr: addr, H: h,
		Draw: Draw{Rand: rand.New(rand.NewPCG(1, 1)), Patience: 400 * time.Millisecond, Late: testLimits.Settle / 3, Buffer: 8 << 10, Leavers: leavers, Silence: 3 * time.Second},
		Strike: func(int) error {
			h.Add(Event{Kind: Kill})
			disk := s.crash()
			s = start(disk)
			return nil
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = run.Do(ctx)
	s.crash()
	b.Close()
	return h.Events(), err
}
