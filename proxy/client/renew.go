package client

import (
	"errors"
	"time"
)

const (
	// longestTick is how often the clock is looked at. Go's timers stand still
	// while the machine is suspended, and a look at each tick finds it out.
	longestTick = 100 * time.Millisecond
	// shortest is the shortest time that an answer gets.
	shortest = 250 * time.Millisecond
)

// watch ends the lease at its time, or a tick later.
func (l *Lease) watch(tick time.Duration) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for l.Err() == nil {
		select {
		case <-ticker.C:
		case <-l.held.Done():
		}
	}
}

// keep renews at a third of the TTL, and where that fails, again until the end.
func (l *Lease) keep() {
	for pause(l.held, l.untilRenewal()) {
		for {
			err := l.renew()
			if err == nil {
				break
			}
			if errors.Is(err, ErrLost) {
				l.end(err)
			}
			if l.held.Err() != nil {
				return
			}
			// Whatever the answer was, only the time decides: what is wrong with
			// a server or a bearer token may be mended before the end.
			l.report(err)
			if !pause(l.held, jitter(min(retryPause, l.ttl/10))) {
				return
			}
		}
	}
}

// untilRenewal is the time to the next renewal.
func (l *Lease) untilRenewal() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.until-l.issuer.clock()-l.ttl+jitter(l.ttl/3))
}

// renew asks for one renewal. Each server gets half of the time that is left, so
// that one that stands still does not take it all.
func (l *Lease) renew() error {
	renewed, sent, err := l.issuer.renew(l.held, l.key, l.id, func() time.Duration { return max(l.Remaining()/2, shortest) })
	if err != nil {
		return err
	}
	if l.Err() != nil { // too late: it counts as lost already, and stays so
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ttl = time.Duration(renewed.ExpiresIn)
	l.until = sent + l.ttl
	return nil
}
