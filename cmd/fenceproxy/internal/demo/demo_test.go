package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain lets the test binary be the workers as well. The real proxy comes
// in cmd/fenceproxy's script demo.txtar; here fences stand in that are worse.
func TestMain(m *testing.M) {
	if len(os.Args) == 6 && os.Args[1] == "demo" && os.Args[2] == "worker" {
		if err := Worker(context.Background(), os.Args[3], os.Args[4], os.Args[5], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	holdTime = patience / 2 // a proxy that lets B's write pass does so within it
	os.Exit(m.Run())
}

// standIn makes a fence of what decides about each request.
func standIn(refuse func(*http.Request) bool) fencer {
	return func(_ context.Context, _, upstream, _ string, _ bool) (fence, error) {
		u, err := url.Parse(upstream)
		if err != nil {
			return fence{}, err
		}
		forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if refuse(r) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusConflict)
				_, _ = w.Write([]byte(`{"type":"urn:fenceproxy:problem:stale-token"}`))
				return
			}
			forward.ServeHTTP(w, r)
		}))
		return fence{url: srv.URL, stop: func() error { srv.Close(); return nil }}, nil
	}
}

// passAll refuses nothing.
func passAll() fencer { return standIn(func(*http.Request) bool { return false }) }

// checkThenForward refuses stale tokens and waits for nobody: the proxy that
// the last line of act 3 speaks of.
func checkThenForward() fencer {
	var highest atomic.Uint64
	return func(ctx context.Context, self, upstream, dir string, lends bool) (fence, error) {
		highest.Store(0)
		return standIn(func(r *http.Request) bool {
			token, err := strconv.ParseUint(r.Header.Get(tokenHeader), 10, 64)
			if err != nil {
				return r.Method == http.MethodPut
			}
			for {
				h := highest.Load()
				if token < h {
					return true
				}
				if highest.CompareAndSwap(h, token) {
					return false
				}
			}
		})(ctx, self, upstream, dir, lends)
	}
}

func noFence(context.Context, string, string, string, bool) (fence, error) {
	return fence{}, errors.New("no such fence")
}

// The demo judges itself: with a fence that does not do its work, the act that
// needs it fails and says how.
func TestAWorseFenceFails(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		fence fencer
		want  string
	}{
		{"none", noFence, "act 2 did not end as promised: no such fence"},
		{"one that refuses nothing", passAll(),
			"act 2 did not end as promised: worker A should be answered 409 stale-token, and was answered 204"},
		{"one that checks and forwards", checkThenForward(),
			`act 3 did not end as promised: the write of worker B should wait until A's is over: at the API, the write of "B's edit" arrived`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(t.Context(), Options{Out: &out, Self: self}, tt.fence)
			if err == nil || err.Error() != tt.want {
				t.Fatalf("got %v, want %s\n%s", err, tt.want, out.String())
			}
			// What was promised before that is there, and what comes after is not.
			if !strings.Contains(out.String(), acts[0].lesson[0]) || strings.Contains(out.String(), next) {
				t.Fatalf("printed:\n%s", out.String())
			}
		})
	}
}

// A demo that is cut short leaves neither a directory nor a paused process:
// run returns only when all its processes have ended.
func TestCutShort(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancelCause(t.Context())
	out := writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "SIGSTOP)") {
			cancel(errors.New("enough")) // A is paused right now
		}
		return len(p), nil
	})
	err = run(ctx, Options{Out: out, Self: self}, noFence)
	if err == nil || err.Error() != "act 1 was cut short: enough" {
		t.Fatalf("got %v", err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

// A reader that is gone ends the demo at once.
func TestNobodyReads(t *testing.T) {
	gone := errors.New("gone")
	err := run(t.Context(), Options{Out: writerFunc(func([]byte) (int, error) { return 0, gone }), Self: "/nonexistent"}, noFence)
	if !errors.Is(err, gone) {
		t.Fatalf("got %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestLock(t *testing.T) {
	l, now := &lock{}, time.Now()
	for _, tt := range []struct {
		name  string
		after time.Duration
		token uint64 // 0: it is taken
	}{
		{"the first", 0, 1},
		{"taken at once", 0, 0},
		{"taken until the last moment", leaseTime - 1, 0},
		{"free at its end", leaseTime, 2},
		{"the next runs from there", 2*leaseTime - 1, 0},
		{"and never the same token again", 5 * leaseTime, 3},
		{"taken for the first who comes, late as it is", 9 * leaseTime, 0},
		{"and then free", 9 * leaseTime, 4},
	} {
		got, ok := l.take(now.Add(tt.after))
		if got.Token != tt.token || ok != (tt.token != 0) {
			t.Errorf("%s: got %d, %v, want %d", tt.name, got.Token, ok, tt.token)
		}
	}
	if l.renew(3, now.Add(9*leaseTime)) {
		t.Error("a lease was renewed that another has")
	}
	if !l.renew(4, now.Add(11*leaseTime)) {
		t.Error("a lease that nobody else has was not renewed")
	}
	for range 2 {
		if _, ok := l.take(now.Add(12*leaseTime - 1)); ok {
			t.Error("a lease that was renewed is free before its end")
		}
	}
}

// A machine that stood still for longer than a lease lasts does not end the demo:
// here between the worker's lease and its look at it, and before B comes.
func TestTheMachineStandsStill(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "(SIGSTOP)") {
			time.Sleep(leaseTime + leaseTime/2)
		}
		return len(p), nil
	})
	slow := func(ctx context.Context, self, upstream, dir string, lends bool) (fence, error) {
		return standIn(func(r *http.Request) bool {
			if r.Method == http.MethodGet { // behind its lease the worker reads
				time.Sleep(leaseTime + leaseTime/2)
			}
			return false
		})(ctx, self, upstream, dir, lends)
	}
	const want = "act 2 did not end as promised: worker A should be answered 409 stale-token, and was answered 204"
	if err := run(t.Context(), Options{Out: out, Self: self}, slow); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
