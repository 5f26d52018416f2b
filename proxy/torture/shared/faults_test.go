package shared

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// The times of a storm, in which sessions are to end.
const (
	stormTTL    = 3 * time.Second
	stormMargin = time.Second
	stormLinger = 2500 * time.Millisecond
	stormGone   = stormTTL + stormLinger + 2*time.Second // as gone
)

// maxPause is how long a proxy is stopped at the most: what the operator has to
// promise (A7), less what a busy machine adds.
const maxPause = (stormLinger+stormMargin-settle)/2 - 400*time.Millisecond

// bound is how long any client waits for its answer at the most: for older
// writes, for the upstream, and for the pauses of its proxy.
const bound = drain + response + settle + 3*maxPause + 2*time.Second

// disturb does one thing after the other to a proxy. Between two of them it
// gets the time to do what became due: two pauses with nothing between them
// are one that is too long.
func (s *storm) disturb(rng *rand.Rand, m *member) {
	faults := []struct {
		name string
		do   func() error
	}{
		{"stopped", func() error { s.pause(rng, m); return nil }},
		{"killed", func() error { return s.restart(rng, m) }},
		{"cut off from the store", func() error {
			m.store.Hold(true)
			s.sleep(rng, 0, stormTTL)
			m.store.Hold(false)
			return nil
		}},
		{"stopped while cut off from the store", func() error {
			m.store.Hold(true)
			s.sleep(rng, 0, stormTTL-stormMargin) // the deadline is about to come, or was
			s.pause(rng, m)
			s.sleep(rng, 0, stormTTL)
			m.store.Hold(false)
			return nil
		}},
		{"thrown out by the store", func() error { m.store.Reset(); return nil }},
		{"cut off from the backend", func() error {
			m.origin.Hold(true)
			s.sleep(rng, 0, time.Second)
			m.origin.Hold(false)
			return nil
		}},
		{"thrown out by the backend", func() error { m.origin.Reset(); return nil }},
	}
	start := rng.IntN(len(faults))
	for i := range s.faults {
		f := faults[(start+i)%len(faults)]
		if i >= len(faults) {
			f = faults[rng.IntN(len(faults))]
		}
		s.sleep(rng, 400*time.Millisecond, 1200*time.Millisecond)
		if s.stopped() {
			return
		}
		s.alone.RLock()
		s.begin(f.name, m.name)
		err := f.do()
		s.alone.RUnlock()
		if err != nil {
			s.fail(fmt.Errorf("proxy %s, %s: %w", m.name, f.name, err))
			return
		}
		if i%(len(faults)*len(s.members)) == len(faults)-1 && m == s.members[(i/len(faults)+int(s.seed))%len(s.members)] {
			s.cutOffAlone(rng, m)
		}
	}
	s.countWaits(m)
}

// cutOffAlone keeps a proxy away from the store for so long that the others go
// on without it, and leaves these in peace meanwhile. What it holds, holders at
// it go on to use for as long as it lets them.
func (s *storm) cutOffAlone(rng *rand.Rand, m *member) {
	s.alone.Lock()
	defer s.alone.Unlock()
	s.begin("cut off from the store alone", m.name)
	time.Sleep(time.Second) // for the others to come back, and for it to be given something
	m.store.Hold(true)
	s.sleep(rng, stormGone+time.Second, stormGone+3*time.Second)
	m.store.Hold(false)
}

// disturbStore ends the store and starts it again, now and then, until the
// proxies had all of theirs.
func (s *storm) disturbStore(rng *rand.Rand) {
	for range max(1, s.faults/4) {
		s.sleep(rng, 2*time.Second, 5*time.Second)
		if s.stopped() {
			return
		}
		s.alone.RLock()
		s.begin("ended", "the store")
		s.engine.Kill()
		s.sleep(rng, 0, time.Second)
		err := s.engine.Start()
		s.alone.RUnlock()
		if err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *storm) begin(what, who string) {
	s.fault("%s is %s", who, what)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[what]++
}

// pause stops a proxy for as long as A7 allows.
func (s *storm) pause(rng *rand.Rand, m *member) {
	m.Pause()
	s.sleep(rng, 0, maxPause)
	m.Resume()
}

func (s *storm) restart(rng *rand.Rand, m *member) error {
	s.countWaits(m)
	m.Kill()
	s.sleep(rng, 0, 500*time.Millisecond)
	return m.start()
}

func (s *storm) sleep(rng *rand.Rand, low, high time.Duration) {
	time.Sleep(low + time.Duration(rng.Int64N(int64(high-low))))
}

// countWaits reads how often a proxy has waited for another, before it forgets.
func (s *storm) countWaits(m *member) {
	_, text := m.ask("/metrics")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "fenceproxy_remote_waits_seconds_count "); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			s.waits.Add(int64(n))
		}
	}
}
