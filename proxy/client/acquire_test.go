package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		other := r.acquire(t, r.options())
		o := r.options()
		o.Wait = 5 * time.Second
		began := time.Now()
		_, err := Acquire(t.Context(), "k", o)
		held := (*HeldError)(nil)
		if !errors.As(err, &held) || held.Key != "k" || held.Holder != "me" || held.RetryAfter != 30*time.Second || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		_ = other.Release(t.Context())
	})
}

// A lease that was waited for longer than it lives is renewed before anybody is
// told of it: its time is counted from a moment that is known.
func TestWaitedLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		other := r.acquire(t, r.options())
		o := r.options()
		o.Wait, o.TTL = time.Hour, 2*time.Second
		go func() {
			time.Sleep(10 * time.Minute)
			_ = other.Release(t.Context())
		}()
		l := r.acquire(t, o)
		if l.Token() != "2" || l.Err() != nil || l.Remaining() != 2*time.Second {
			t.Errorf("token %s, %v, %v left", l.Token(), l.Err(), l.Remaining())
		}
		time.Sleep(time.Minute)
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Where that renewal fails, nobody is told of a lease, and the server need not
// wait for its end.
func TestWaitedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.line.slow.Store(int64(20 * time.Second))
		r.line.seen = func(q *http.Request) bool {
			if q.Method == http.MethodPut {
				r.line.slow.Store(0)
				return true
			}
			return false
		}
		l, err := Acquire(t.Context(), "k", r.options())
		if l != nil || !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v %v", l, err)
		}
		if r.server.Held("k").ID != "" {
			t.Error("the grant that nobody was told of is still held")
		}
	})
}

// A server that restarts is waited for, as long as Wait lasts and patience.
func TestUnreachable(t *testing.T) {
	for _, row := range []struct{ wait, back, want time.Duration }{
		{0, 0, 0},
		{3 * time.Second, 0, 3 * time.Second},
		{time.Minute, 0, patience},
		{time.Minute, 4 * time.Second, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.line.cut.Store(true)
			if row.back > 0 {
				go func() {
					time.Sleep(row.back)
					r.line.cut.Store(false)
				}()
			}
			o := r.options()
			o.Wait = row.wait
			began := time.Now()
			l, err := Acquire(t.Context(), "k", o)
			d := time.Since(began)
			if row.want < 0 {
				if err != nil || d < row.back || d > row.back+time.Second {
					t.Errorf("%v: %v after %v", row, err, d)
				} else {
					_ = l.Release(t.Context())
				}
			} else if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "http://server: ") || d < row.want || d > row.want+time.Second {
				t.Errorf("%v: %v after %v", row, err, d)
			}
		})
	}
}

// What is wrong with the question is told at once.
func TestServerError(t *testing.T) {
	for _, row := range []struct {
		status int
		says   string
	}{{401, "401 store-unavailable: refused as the test says"}, {500, "500"}, {201, "is this the address of leases.address?"}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.server.Refuse(row.status)
			o := r.options()
			o.Wait = time.Minute
			began := time.Now()
			_, err := Acquire(t.Context(), "k", o)
			refused := (*ServerError)(nil)
			if !errors.As(err, &refused) || refused.Status != row.status || !strings.Contains(err.Error(), row.says) || time.Since(began) > time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	}
}

func TestAcquireLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		other := r.acquire(t, r.options())
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		time.AfterFunc(time.Second, func() { cancel(why) })
		o := r.options()
		o.Wait = time.Minute
		began := time.Now()
		if _, err := Acquire(ctx, "k", o); !errors.Is(err, why) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		_ = other.Release(t.Context())
	})
}

func TestBearer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.server.Bearer = "secret"
		o := r.options()
		o.Bearer = func() (string, error) { return "secret", nil }
		l := r.acquire(t, o)
		time.Sleep(time.Minute)
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestOptionsRefused(t *testing.T) {
	for _, servers := range [][]string{nil, {"127.0.0.1:9902"}, {"ftp://x"}, {"http://"}, {"http://x?y"}} {
		if _, err := Acquire(t.Context(), "k", LeaseOptions{Servers: servers}); err == nil || !strings.Contains(err.Error(), "server") {
			t.Errorf("%q: %v", servers, err)
		}
	}
	if _, err := Acquire(t.Context(), "", LeaseOptions{Servers: []string{"http://x"}}); err == nil {
		t.Error("an empty key")
	}
}

// Keys arrive as they are: encoded once, and no dot segments.
func TestKeysArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, key := range []string{"/a/b", "account:42", "a%20b", "ü?#", ".", "..", "a b", "../x"} {
			r := newRig()
			l, err := Acquire(t.Context(), key, r.options())
			if err != nil {
				t.Errorf("%q: %v", key, err)
				continue
			}
			if r.server.Held(key).ID == "" {
				t.Errorf("%q is held under another name", key)
			}
			_ = l.Release(t.Context())
		}
	})
}

// A redirect is not followed: it would take the bearer token elsewhere.
func TestNoRedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		asked := 0
		r.line.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			asked++
			http.Redirect(w, q, "http://elsewhere/", http.StatusTemporaryRedirect)
		})
		_, err := Acquire(t.Context(), "k", r.options())
		if refused := (*ServerError)(nil); !errors.As(err, &refused) || refused.Status != http.StatusTemporaryRedirect || asked != 1 {
			t.Errorf("%v after %d requests", err, asked)
		}
	})
}
