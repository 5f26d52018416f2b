package client

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A server that takes requests and answers none is found out, from the
// beginning and later, however long the wait is. Another one is asked then.
func TestSilent(t *testing.T) {
	for _, row := range []struct {
		wait, mute, want time.Duration
	}{
		{0, 0, patience},
		{time.Hour, 0, patience},
		{0, time.Minute, time.Minute + patience},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.line.slow.Store(int64(time.Hour)) // it drains
			time.AfterFunc(row.mute, func() { r.line.mute.Store(true) })
			synctest.Wait()
			o := r.options()
			o.Wait = row.wait
			began := time.Now()
			l, err := Acquire(t.Context(), "k", o)
			if d := time.Since(began); l != nil || !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "http://server: "+errSilent.Error()) ||
				d < row.want-patience/2 || d > row.want {
				t.Errorf("%v: %v after %v", row, err, d)
			}
		})
	}
}

// A server that drains for long is waited for, as long as it answers anything.
func TestDrainsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		drain := drainPatience - time.Second
		r.line.slow.Store(int64(drain))
		time.AfterFunc(drain, func() { r.line.slow.Store(0) }) // what follows is quick
		o := r.options()
		o.TTL = time.Hour // this server counts from the beginning
		began := time.Now()
		l := r.acquire(t, o)
		if d := time.Since(began); d != drain {
			t.Errorf("after %v", d)
		}
		_ = l.Release(t.Context())
	})
}

// A server that cannot be reached for a moment is not silent: what waits there
// keeps its place.
func TestSilentForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		drain := time.Minute
		r.line.slow.Store(int64(drain))
		refused, asked := 0, 0
		r.line.seen = func(req *http.Request) bool {
			if got := req.Header.Get("Authorization"); got != "Bearer secret" { // or its log would tell of somebody who was kept out
				t.Errorf("a %s with the bearer token %q", req.Method, got)
			}
			if req.Method != http.MethodGet {
				asked++
				return false
			}
			refused++
			return refused%4 == 1
		}
		time.AfterFunc(drain, func() { r.line.slow.Store(0) })
		o := r.options()
		o.TTL, o.Bearer = time.Hour, func() (string, error) { return "secret", nil }
		l, err := Acquire(t.Context(), "k", o)
		if err != nil || refused < 4 || asked > 2 { // a renewal follows the grant
			t.Fatalf("%v; %d questions, %d requests", err, refused, asked)
		}
		_ = l.Release(t.Context())
	})
}
