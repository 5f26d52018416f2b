package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// lock is a lock service for one resource: it leases it to one holder at a
// time, and gives every lease a higher fencing token than the last. Whether a
// holder noticed the end of its lease is not for a lock service to know.
type lock struct {
	mu     sync.Mutex
	token  uint64
	until  time.Time // the end of the lease
	wanted bool      // somebody was told that it is taken
}

// lease is what a holder gets.
type lease struct {
	Token uint64        `json:"token"`
	TTL   time.Duration `json:"ttl"` // nanoseconds, from the grant on
}

// take returns the next lease; ok is false while somebody has one. It is also for
// the first who comes behind its end: in the story B comes before that, and where
// the machine stood still it would be too late.
func (l *lock) take(now time.Time) (granted lease, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.until) || l.token > 0 && !l.wanted {
		l.wanted = true
		return lease{}, false
	}
	l.token++
	l.until, l.wanted = now.Add(leaseTime), false
	return lease{l.token, leaseTime}, true
}

// renew gives a lease its whole time again, also behind its end as long as nobody
// else has it; ok is false then.
func (l *lock) renew(token uint64, now time.Time) (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token != l.token {
		return false
	}
	l.until = now.Add(leaseTime)
	return true
}

// over waits for the end of the lease that runs now.
func (l *lock) over(ctx context.Context) error {
	l.mu.Lock()
	wait := time.Until(l.until)
	l.mu.Unlock()
	return pause(ctx, wait)
}

// ServeHTTP grants a lease for a POST and renews one for a PUT, or answers 423
// while another has it.
func (l *lock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		if granted, ok := l.take(time.Now()); ok {
			_ = json.NewEncoder(w).Encode(granted)
			return
		}
	case http.MethodPut:
		if token, err := strconv.ParseUint(r.Header.Get(tokenHeader), 10, 64); err == nil && l.renew(token, time.Now()) {
			return
		}
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.WriteHeader(http.StatusLocked)
}

// pause waits for d, or returns the reason why ctx ended first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
