package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// lock is a lock service for one resource: it leases it to one holder at a
// time, and gives every lease a higher fencing token than the last. Whether a
// holder noticed the end of its lease is not for a lock service to know.
type lock struct {
	mu    sync.Mutex
	token uint64
	until time.Time // the end of the lease
}

// lease is what a holder gets.
type lease struct {
	Token uint64        `json:"token"`
	TTL   time.Duration `json:"ttl"` // nanoseconds, from the grant on
}

// take returns the next lease; ok is false while somebody has one.
func (l *lock) take(now time.Time) (granted lease, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.until) {
		return lease{}, false
	}
	l.token++
	l.until = now.Add(leaseTime)
	return lease{l.token, leaseTime}, true
}

// over waits for the end of the lease that runs now.
func (l *lock) over(ctx context.Context) error {
	l.mu.Lock()
	wait := time.Until(l.until)
	l.mu.Unlock()
	return pause(ctx, wait)
}

// ServeHTTP grants a lease for a POST, or answers 423 while it is taken.
func (l *lock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	granted, ok := l.take(time.Now())
	if !ok {
		w.WriteHeader(http.StatusLocked)
		return
	}
	_ = json.NewEncoder(w).Encode(granted)
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
