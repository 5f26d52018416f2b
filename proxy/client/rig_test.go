package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/client/clienttest"
)

// line is the way from a client to a lease server without a socket, so that
// time can be virtual.
type line struct {
	http.Handler
	cut   atomic.Bool                     // nothing arrives
	mute  atomic.Bool                     // nothing arrives, and nobody says so
	lossy atomic.Bool                     // the request arrives, and its answer is lost
	slow  atomic.Int64                    // how long an answer takes that changes something
	seen  func(*http.Request) (stop bool) // nil, or called with each request
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.seen != nil && l.seen(r) {
		return nil, errors.New("stopped")
	}
	if l.cut.Load() {
		return nil, errors.New("connection refused")
	}
	if l.mute.Load() {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	if r.Body == nil { // a server's requests have one
		r = r.WithContext(r.Context())
		r.Body = http.NoBody
	}
	done := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		l.ServeHTTP(w, r)
		if r.Method != http.MethodGet {
			pause(r.Context(), time.Duration(l.slow.Load()))
		}
		done <- w.Result()
	}()
	select {
	case resp := <-done:
		if l.lossy.Load() {
			return nil, errors.New("connection reset")
		}
		return resp, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// rig is a lease server, the way to it, and a clock that a test can move.
type rig struct {
	server clienttest.Server
	line   line
	slept  atomic.Int64 // suspended time, which timers do not know of
	began  time.Time
}

func newRig() *rig {
	r := &rig{began: time.Now()}
	r.line.Handler = &r.server
	return r
}

func (r *rig) clock() time.Duration { return time.Since(r.began) + time.Duration(r.slept.Load()) }

// options are for a lease of 30 s.
func (r *rig) options() LeaseOptions {
	return LeaseOptions{Servers: []string{"http://server"}, Holder: "me", TTL: 30 * time.Second, HTTPClient: &http.Client{Transport: &r.line}, clock: r.clock}
}

// acquire gets the lease of key "k".
func (r *rig) acquire(t *testing.T, o LeaseOptions) *Lease {
	t.Helper()
	l, err := Acquire(t.Context(), "k", o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
