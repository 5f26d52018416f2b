package torture

import (
	"testing"
	"time"
)

// What is seen behind a standstill may have been there since it began.
func TestPulse(t *testing.T) {
	const ms = time.Millisecond
	p := &pulse{last: 100 * ms}
	for _, c := range []struct {
		now, want time.Duration
	}{
		{105 * ms, 105 * ms},
		{110 * ms, 110 * ms},
		{400 * ms, 110 * ms}, // seen before the next beat
		{405 * ms, 110 * ms},
		{410 * ms, 110 * ms},
		{500 * ms, 110 * ms}, // stood still again: one with the first
		{505 * ms, 110 * ms},
		{520 * ms, 110 * ms},
		{695 * ms, 110 * ms},
		{700 * ms, 110 * ms},
		{894 * ms, 110 * ms},
		{895 * ms, 110 * ms},
	} {
		if got := p.since(c.now); got != c.want {
			t.Errorf("at %v: since %v, want %v", c.now, got, c.want)
		}
	}
	for now := 900 * ms; now < 1200*ms; now += beat {
		p.since(now)
	}
	if got := p.since(1200 * ms); got != 1200*ms {
		t.Errorf("all was taken in, and it is since %v", got)
	}
	if p.lost(1205 * ms) {
		t.Error("a write that was seen in time is lost")
	}
	if got := p.longestSoFar(); got != 290*ms {
		t.Errorf("the longest standstill was %v", got)
	}
	if !p.lost(1800 * ms) {
		t.Error("a write that is seen behind a standstill of 600 ms is not lost")
	}
	for now := 1805 * ms; now < 2000*ms; now += beat {
		p.since(now)
	}
	if p.lost(2000 * ms) {
		t.Error("writes are lost for ever")
	}
}
