package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A judge that finds nothing is worth something only where it would have found
// something: a small storm over proxies that are wrong in one way each. What a
// proxy is for, taken out of the real one, is in TestBrokenProxiesAreCaught.
func TestStandinsAreCaught(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  fault
		writes int
		ends   int
		caught []string // the judges that must speak
	}{
		{"sound", sound, 5000, 3, nil},
		{"forgets at a crash", noRecord, 10_000, 60, []string{"a stale token is refused for ever"}},
		{"no quarantine", noQuarantine, 10_000, 60, []string{"a newer write waits until every older one is over"}},
		{"forgets what failed", noUnsettled, 10_000, 1, []string{"a newer write waits until every older one is over"}},
		{"leaves with its client", cancels, 20_000, 1, []string{"a newer write waits until every older one is over"}},
		{"says 200 unsent", lies, 10_000, 1, []string{"a 2xx was applied"}},
		{"denies what it sent", denies, 10_000, 1, []string{"what was not forwarded never arrived"}},
		{"guesses", guesses, 10_000, 1, []string{"a stale token is lower than one presented before"}},
		{"answers nobody who waited", hangs, 10_000, 1, []string{"every client gets its answer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStandinStorm(t, c.fault, c.writes, c.ends)
			defer s.close()
			if c.caught == nil {
				if err := s.run.Do(t.Context()); err != nil {
					t.Error(err)
				}
				for _, bad := range append(Verdict(s.run.H.Events(), testLimits), Count(s.run.H.Events()).Quiet()...) {
					t.Error(bad)
				}
			} else if _, err := caught(t.Context(), &s.run, testLimits, c.caught); err != nil {
				t.Error(err)
			}
			t.Logf("%+v", Count(s.run.H.Events()))
		})
	}
}

// caught runs a storm until each of the judges has found something, or to its
// end, which is an error.
func caught(ctx context.Context, run *Run, lim Limits, judges []string) (found []string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errCaught := errors.New("caught")
	ended := make(chan error, 1)
	go func() { ended <- run.Do(ctx) }()
	for over := false; ; {
		for len(found) < len(judges) {
			bad := breach(judges[len(found)], run.H.Events(), lim)
			if bad == "" {
				break
			}
			found = append(found, judges[len(found)]+": "+bad)
		}
		switch {
		case len(found) == len(judges):
			cancel(errCaught)
			if !over {
				err = <-ended
			}
			if errors.Is(err, errCaught) {
				err = nil
			}
			return found, err
		case over:
			return found, fmt.Errorf("the storm is over (%w), and this judge has found nothing: %s", err, judges[len(found)])
		}
		select {
		case err = <-ended:
			over = true // what came last is judged, too
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// breach asks one judge for the first breach; "" for none.
func breach(judge string, h []Event, lim Limits) string {
	all := Judges()
	i := slices.IndexFunc(all, func(j Judge) bool { return j.Name == judge })
	if i < 0 {
		return "there is no such judge"
	}
	for _, bad := range all[i].Find(h, lim) {
		return bad
	}
	return ""
}

// standinStorm is a storm over a stand-in.
type standinStorm struct {
	run   Run
	back  *Backend
	proxy *standin
}

func (s *standinStorm) close() {
	s.proxy.crash()
	s.back.Close()
}

func newStandinStorm(t *testing.T, f fault, writes, ends int) *standinStorm {
	h := NewHistory()
	b, err := StartBackend(h, BackendOptions{Settle: testLimits.Settle / 3, Patience: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s := &standinStorm{back: b}
	start := func(disk map[string]uint64) error {
		h.Add(Event{Kind: Start})
		proxy, err := startStandin(addr, b.URL(), f, testLimits.Settle, 400*time.Millisecond, disk)
		if err == nil {
			s.proxy = proxy
		}
		return err
	}
	if err := start(nil); err != nil {
		t.Fatal(err)
	}
	leavers := 0
	if f == cancels {
		leavers = 500
	}
	s.run = Run{
		Seed: 1, Clients: 32, Keys: 4, Writes: writes, Blows: ends, Addr: addr, H: h,
		Draw: Draw{Patience: 400 * time.Millisecond, Late: testLimits.Settle / 6, Buffer: 8 << 10, Leavers: leavers, Silence: 8 * time.Second},
		Strike: func(int) error {
			h.Add(Event{Kind: Kill})
			return start(s.proxy.crash())
		},
	}
	return s
}
