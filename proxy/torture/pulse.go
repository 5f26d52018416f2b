package torture

import (
	"sync"
	"time"
)

const (
	beat = 5 * time.Millisecond
	// late is how late a beat has to be to count as a standstill.
	late = 15 * time.Millisecond
	// after is how long after a standstill all that came meanwhile is taken in:
	// so many beats in time say that nothing has to wait its turn for long.
	after = 50 * time.Millisecond
	// long is a standstill that leaves so much to take in that beats in time say
	// nothing of it: afterLong is how long that takes on a busy machine.
	long      = 500 * time.Millisecond
	afterLong = time.Second
)

// pulse notices when the process of the test stands still, since the machine is
// busy with others. What it sees then, it sees late: a backend that counted its
// settle from there would break A1.
type pulse struct {
	h *History

	mu       sync.Mutex
	last     time.Duration // beat
	from, to time.Duration // of the last standstill
	longFrom time.Duration // the same of the last long one
	longTo   time.Duration
	worst    time.Duration
}

func newPulse(h *History) *pulse { return &pulse{h: h, last: h.Now()} }

// beat runs until done is closed.
func (p *pulse) beat(done <-chan struct{}) {
	t := time.NewTicker(beat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.since(p.h.turn())
		case <-done:
			return
		}
	}
}

// since returns since when what is seen now may have been there to be seen.
func (p *pulse) since(now time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now-p.last > beat+late {
		if p.to == 0 || p.last > p.to+after { // else it is one with the standstill before
			p.from = p.last
		}
		p.to = now
		p.worst = max(p.worst, now-p.last)
		if now-p.last > long {
			if p.longTo == 0 || p.last > p.longTo+afterLong {
				p.longFrom = p.from
			}
			p.longTo = now
		}
	}
	p.last = max(p.last, now)
	if p.longTo > 0 && now < p.longTo+afterLong {
		return p.longFrom
	}
	if p.to > 0 && now < p.to+after {
		return p.from
	}
	return now
}

// longest is the longest standstill so far.
func (p *pulse) longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.worst
}
