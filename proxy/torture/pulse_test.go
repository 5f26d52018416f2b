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
	if got := p.longest(); got != 290*ms {
		t.Errorf("the longest standstill was %v", got)
	}
}
