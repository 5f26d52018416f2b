package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A lease lives for as long as it is renewed, and is free again when it was
// released.
func TestRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		l := r.acquire(t, r.options())
		if l.Key() != "k" || l.Token() != "1" {
			t.Errorf("%s %s", l.Key(), l.Token())
		}
		for range 60 {
			time.Sleep(10 * time.Second)
			if err := l.Err(); err != nil || l.Context().Err() != nil || l.Remaining() < 15*time.Second {
				t.Fatalf("%v %v %v", err, context.Cause(l.Context()), l.Remaining())
			}
		}
		if n := r.server.Asked(http.MethodPut); n < 50 || n > 70 {
			t.Errorf("%d renewals in 10 minutes, want about 60", n)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(l.Err(), ErrReleased) || !errors.Is(context.Cause(l.Context()), ErrReleased) || l.Remaining() != 0 {
			t.Errorf("%v %v", l.Err(), context.Cause(l.Context()))
		}
		if r.server.Held("k").ID != "" {
			t.Error("it is still held")
		}
		if err := l.Release(t.Context()); err != nil || r.server.Asked(http.MethodDelete) != 1 {
			t.Errorf("released twice: %v, %d times at the server", err, r.server.Asked(http.MethodDelete))
		}
		asked := r.server.Asked(http.MethodPut)
		time.Sleep(time.Minute)
		if r.server.Asked(http.MethodPut) != asked {
			t.Error("renewed after the release")
		}
	})
}

// What ends a lease, and when at the latest.
func TestLost(t *testing.T) {
	for _, row := range []struct {
		name  string
		do    func(*rig)
		after time.Duration // the latest end
		least time.Duration // the earliest
		says  string
	}{
		{"the server says so", func(r *rig) { r.server.Lose("k") }, 12 * time.Second, 0, "not yours any more"},
		{"unreachable", func(r *rig) { r.line.cut.Store(true) }, 30*time.Second + longestTick, 19 * time.Second, "not renewed within 30s"},
		{"no answer", func(r *rig) { r.line.mute.Store(true) }, 30*time.Second + longestTick, 19 * time.Second, "not renewed within 30s"},
		{"the store is down", func(r *rig) { r.server.Refuse(503) }, 30*time.Second + longestTick, 19 * time.Second, "not renewed within 30s"},
		{"the bearer token is wrong", func(r *rig) { r.server.Refuse(401) }, 30*time.Second + longestTick, 19 * time.Second, "not renewed within 30s"},
		{"something else answers", func(r *rig) { r.server.Refuse(200) }, 30*time.Second + longestTick, 19 * time.Second, "not renewed within 30s"},
		// The server renews, and its answers come after the end that they were asked before.
		{"answers too late", func(r *rig) { r.line.slow.Store(int64(25 * time.Second)) }, 30*time.Second + longestTick, 19 * time.Second, "not renewed within 30s"},
		{"the machine sleeps", func(r *rig) { r.line.mute.Store(true); r.slept.Store(int64(time.Hour)) }, longestTick, 0, "not renewed within 30s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				l := r.acquire(t, r.options())
				time.Sleep(100 * time.Second) // some renewals
				row.do(r)
				began := time.Now()
				<-l.Context().Done()
				if d := time.Since(began); d > row.after || d < row.least {
					t.Errorf("it was lost after %v, want %v to %v", d, row.least, row.after)
				}
				if err := context.Cause(l.Context()); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), row.says) {
					t.Errorf("%v, want %q", err, row.says)
				}
				if err := l.Release(t.Context()); !errors.Is(err, ErrLost) {
					t.Errorf("released: %v", err)
				}
			})
		})
	}
}

// Err looks at the clock by itself: no timer need have run since the machine
// woke up.
func TestErrLooksAtTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		l := r.acquire(t, r.options())
		r.slept.Store(int64(30 * time.Second))
		if err := l.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("%v after 30 s of sleep", err)
		}
	})
}

// An outage that is shorter than what is left of the lease costs nothing, and
// is reported.
func TestOutageSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		o := r.options()
		reports := 0
		o.Report = func(error) { reports++ }
		l := r.acquire(t, o)
		time.Sleep(5 * time.Second)
		r.line.cut.Store(true)
		time.Sleep(20 * time.Second)
		r.line.cut.Store(false)
		time.Sleep(60 * time.Second)
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		if reports < 5 || reports > 100 {
			t.Errorf("%d reports", reports)
		}
		_ = l.Release(t.Context())
	})
}

// A server that stands still does not take the time that the next one needs.
func TestSecondServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		first := 0
		r.line.seen = func(q *http.Request) bool {
			if q.URL.Host == "one" {
				first++
				<-q.Context().Done()
				return true
			}
			return false
		}
		o := r.options()
		o.Servers = []string{"http://two", "http://one"}
		l := r.acquire(t, o)
		l.issuer.last.Store(1)
		time.Sleep(time.Minute)
		if err := l.Err(); err != nil || first == 0 {
			t.Errorf("%v, the server that stands still was asked %d times", err, first)
		}
		_ = l.Release(t.Context())
	})
}

// The work's context ends with the caller's; the lease is kept for its clean-up.
func TestParentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		ctx, cancel := context.WithCancel(t.Context())
		l, err := Acquire(ctx, "k", r.options())
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		<-l.Context().Done()
		time.Sleep(2 * time.Minute)
		if err := l.Err(); err != nil || r.server.Held("k").ID == "" {
			t.Errorf("the lease went with the caller's context: %v", err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The answer to a DELETE that was lost is no lost lease; a lease that the server
// had taken away is one.
func TestReleaseUnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		l := r.acquire(t, r.options())
		r.line.lossy.Store(true)
		go func() {
			time.Sleep(time.Second)
			r.line.lossy.Store(false)
		}()
		if err := l.Release(t.Context()); err != nil || r.server.Asked(http.MethodDelete) < 2 {
			t.Errorf("%v after %d", err, r.server.Asked(http.MethodDelete))
		}
		l = r.acquire(t, r.options())
		r.server.Lose("k")
		if err := l.Release(t.Context()); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
	})
}

// A release that cannot be told is given up when the lease is over anyway.
func TestReleaseUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		l := r.acquire(t, r.options())
		r.line.cut.Store(true)
		began := time.Now()
		err := l.Release(t.Context())
		if d := time.Since(began); !errors.Is(err, ErrUnreachable) || d < 29*time.Second || d > 31*time.Second {
			t.Errorf("%v after %v", err, d)
		}
	})
}

// The lease's time is counted from the question, not from its answer.
func TestCountedFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.line.slow.Store(int64(5 * time.Second))
		l := r.acquire(t, r.options())
		if d := l.Remaining(); d != 25*time.Second {
			t.Errorf("%v left 5 s after the question, want 25s", d)
		}
		if err := l.renew(); err != nil || l.Remaining() != 25*time.Second {
			t.Errorf("%v, and %v left 5 s after the renewal was sent", err, l.Remaining())
		}
		r.line.slow.Store(0)
		_ = l.Release(t.Context())
	})
}

// A renewal that is answered when the lease's time is over does not bring it
// back: somebody may have seen it as lost.
func TestRenewedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		var l *Lease
		r.line.seen = func(q *http.Request) bool {
			if q.Method == http.MethodPut {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.until = r.clock() // and nobody has looked yet
			}
			return false
		}
		l = r.acquire(t, r.options())
		synctest.Wait() // for the watcher's look at the clock
		if err := l.renew(); err != nil || !errors.Is(l.Err(), ErrLost) {
			t.Errorf("%v, and the lease %v", err, l.Err())
		}
	})
}

// The DELETE is sent when no renewal is on its way any more.
func TestReleaseWaitsForRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		asked, busy := make(chan bool, 1), false
		r.line.seen = func(q *http.Request) bool {
			if q.Method == http.MethodDelete && busy {
				t.Error("the DELETE overtakes a renewal")
			}
			if q.Method != http.MethodPut {
				return false
			}
			busy = true
			asked <- true
			time.Sleep(time.Second) // it does not notice that nobody waits
			busy = false
			return true
		}
		l := r.acquire(t, r.options())
		<-asked
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Only a request that no connection was made for is known not to have arrived.
func TestMaybeSent(t *testing.T) {
	dial := &unreachableError{"http://a", &net.OpError{Op: "dial", Err: errors.New("refused")}}
	read := &unreachableError{"http://b", &net.OpError{Op: "read", Err: errors.New("reset")}}
	for _, row := range []struct {
		err  error
		want bool
	}{{dial, false}, {read, true}, {errors.New("who knows"), true}, {errors.Join(dial, dial), false}, {errors.Join(dial, read), true}} {
		if got := maybeSent(row.err); got != row.want {
			t.Errorf("%v: %v", row.err, got)
		}
	}
}
