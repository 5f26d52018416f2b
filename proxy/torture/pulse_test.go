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
		{540 * ms, 110 * ms},
		{545 * ms, 110 * ms},
		{549 * ms, 110 * ms},
		{551 * ms, 551 * ms},
		{571 * ms, 571 * ms},
		{700 * ms, 571 * ms}, // another one
	} {
		if got := p.since(c.now); got != c.want {
			t.Errorf("at %v: since %v, want %v", c.now, got, c.want)
		}
	}
	if got := p.longest(); got != 290*ms {
		t.Errorf("the longest standstill was %v", got)
	}
	// A long one leaves much to take in.
	for now := 1400 * ms; now < 2400*ms; now += 5 * ms {
		if got := p.since(now); got != 571*ms {
			t.Fatalf("at %v: since %v, want %v", now, got, 571*ms)
		}
	}
	if got := p.since(2400 * ms); got != 2400*ms {
		t.Errorf("at %v: since %v", 2400*ms, got)
	}
}
