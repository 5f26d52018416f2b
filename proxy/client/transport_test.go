package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// proxy answers a request as the fence would, by what its path says.
func proxy(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	refuse := func(name wire.Name, change func(*wire.Problem)) {
		p := wire.NewProblem(name, "do this")
		p.Rule, p.Key, p.Token, p.Highest = "all", r.Header.Get("Key"), r.Header.Get(Header), "9"
		if change != nil {
			change(p)
		}
		w.Header().Set(wire.HeaderResult, wire.ResultRejected(name))
		w.Header().Set(wire.HeaderForwarded, string(p.Forwarded))
		p.Write(w)
	}
	switch r.URL.Path {
	case "/stale":
		refuse(wire.StaleToken, nil)
	case "/cut":
		refuse(wire.StaleToken, func(p *wire.Problem) { p.Forwarded = wire.ForwardedUnknown })
	case "/collision":
		refuse(wire.TokenCollision, nil)
	case "/foreign": // the upstream's own
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set(wire.HeaderForwarded, string(wire.ForwardedYes))
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"type":"about:blank","status":409}`)
	case "/passed-on": // by an upstream that was refused by another fence
		p := wire.NewProblem(wire.StaleToken, "of another fence")
		p.Key = r.Header.Get("Key")
		w.Header().Set(wire.HeaderResult, wire.ResultAdmitted)
		w.Header().Set(wire.HeaderForwarded, string(wire.ForwardedYes))
		p.Write(w)
	default:
		w.Header().Set("Got-Token", strings.Join(r.Header.Values(Header), ","))
		w.Header().Set("Got-Body", string(body))
	}
}

func serve(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// closing is a body that knows whether it was closed.
type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Close() error { c.closed.Store(true); return nil }

func send(t *testing.T, tr *Transport, ctx context.Context, url string, body io.Reader) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	if req.Header.Get(Header) != "" {
		t.Error("the caller's request was changed")
	}
	return resp, err
}

// Where the token comes from, and which source goes before which.
func TestTokenSources(t *testing.T) {
	url := serve(t, proxy)
	of := func(token string, err error) func(*http.Request) (string, error) {
		return func(*http.Request) (string, error) { return token, err }
	}
	lease := &Lease{token: "3", issuer: &issuer{clock: boottime}, until: boottime() + time.Hour}
	with := t.Context()
	for _, row := range []struct {
		name string
		tr   Transport
		ctx  context.Context
		want string
	}{
		{"none", Transport{}, with, ""},
		{"context", Transport{Token: of("2", nil), Lease: lease}, WithToken(with, "1"), "1"},
		{"the inner context", Transport{}, WithToken(withSource(with, lease), "1"), "1"},
		{"a lease's context", Transport{}, withSource(with, lease), "3"},
		{"func", Transport{Token: of("2", nil), Lease: lease}, with, "2"},
		{"func that has none", Transport{Token: of("", nil), Lease: lease}, with, "3"},
		{"lease", Transport{Lease: lease}, with, "3"},
	} {
		resp, err := send(t, &row.tr, row.ctx, url, strings.NewReader("text"))
		if err != nil || resp.Header.Get("Got-Token") != row.want || resp.Header.Get("Got-Body") != "text" {
			t.Errorf("%s: %v %v", row.name, resp, err)
		}
	}
	why := errors.New("no token today")
	body := &closing{Reader: strings.NewReader("text")}
	if _, err := send(t, &Transport{Token: of("", why)}, with, url, body); !errors.Is(err, why) || !body.closed.Load() {
		t.Errorf("%v, closed %v", err, body.closed.Load())
	}
	if token, ok := FromContext(WithToken(with, "5")); token != "5" || !ok {
		t.Error(token, ok)
	}
	if _, ok := FromContext(with); ok {
		t.Error("a token from nowhere")
	}
}

func TestStaleToken(t *testing.T) {
	url := serve(t, proxy)
	for _, path := range []string{"/stale", "/cut"} {
		_, err := send(t, &Transport{RetryFor: time.Minute}, WithToken(t.Context(), "7"), url+path, nil)
		stale := (*StaleTokenError)(nil)
		if !errors.As(err, &stale) || stale.Rule != "all" || stale.Token != "7" || stale.Highest != "9" || stale.Forwarded != (path == "/cut") || stale.Detail != "do this" {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, want := range map[string]string{"/collision": "token-collision", "/foreign": "about:blank", "/passed-on": "of another fence"} {
		resp, err := send(t, &Transport{}, WithToken(t.Context(), "7"), url+path, nil)
		if err != nil || resp.StatusCode != http.StatusConflict {
			t.Errorf("%s: %v %v", path, resp, err)
			continue
		}
		if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: the body cannot be read as before: %q %v", path, text, err)
		}
	}
}

// A request of a lost lease is not sent, and its body is closed. A stale token
// on the lease's own key ends the lease, on another key it does not.
func TestLeaseTransport(t *testing.T) {
	url := serve(t, proxy)
	r := newRig()
	l := r.acquire(t, r.options())
	req := func(key string) error {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/stale", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Key", key)
		resp, err := (&http.Client{Transport: &Transport{Lease: l}}).Do(q)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	stale := (*StaleTokenError)(nil)
	if err := req("another"); !errors.As(err, &stale) || l.Err() != nil {
		t.Errorf("%v, and the lease %v", err, l.Err())
	}
	if err := req("k"); !errors.As(err, &stale) || !errors.Is(l.Err(), ErrLost) {
		t.Errorf("%v, and the lease %v", err, l.Err())
	}
	body := &closing{Reader: strings.NewReader("text")}
	if _, err := send(t, &Transport{Lease: l}, t.Context(), url, body); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "not sent") || !body.closed.Load() {
		t.Errorf("%v, closed %v", err, body.closed.Load())
	}
}

// busy answers n times that it may be tried again, as the row says.
func busy(n *atomic.Int32, change func(*wire.Problem, http.Header)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if n.Add(-1) < 0 {
			proxy(w, r)
			return
		}
		p := wire.NewProblem(wire.StoreUnavailable, "wait")
		w.Header().Set(wire.HeaderForwarded, string(wire.ForwardedNo))
		change(p, w.Header())
		p.Write(w)
	}
}

func TestRetries(t *testing.T) {
	again := func(*wire.Problem, http.Header) {}
	for _, row := range []struct {
		name   string
		tr     Transport
		body   io.Reader
		change func(*wire.Problem, http.Header)
		want   int
	}{
		{"tried again", Transport{RetryFor: time.Minute}, strings.NewReader("text"), again, 200},
		{"without a body", Transport{RetryFor: time.Minute}, nil, again, 200},
		{"not asked for", Transport{}, strings.NewReader("text"), again, 503},
		{"not for as long", Transport{RetryFor: 500 * time.Millisecond}, strings.NewReader("text"), again, 503},
		{"a body that is gone", Transport{RetryFor: time.Minute}, io.MultiReader(strings.NewReader("text")), again, 503},
		{"not retryable", Transport{RetryFor: time.Minute}, nil, func(p *wire.Problem, _ http.Header) { p.Retryable = false }, 503},
		{"forwarded, who knows", Transport{RetryFor: time.Minute}, nil, func(p *wire.Problem, _ http.Header) { p.Forwarded = wire.ForwardedUnknown }, 503},
		{"the upstream's own words", Transport{RetryFor: time.Minute}, nil, func(_ *wire.Problem, h http.Header) { h.Set(wire.HeaderForwarded, "yes") }, 503},
		{"no word of the proxy's", Transport{RetryFor: time.Minute}, nil, func(_ *wire.Problem, h http.Header) { h.Del(wire.HeaderForwarded) }, 503},
	} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int32
			n.Store(2)
			way := &line{Handler: busy(&n, row.change)}
			row.tr.Base = way
			req, err := http.NewRequestWithContext(WithToken(t.Context(), "1"), http.MethodPut, "http://proxy/", row.body)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			resp, err := row.tr.RoundTrip(req)
			if err != nil || resp.StatusCode != row.want {
				t.Errorf("%s: %v %v", row.name, resp, err)
				return
			}
			if row.want == 200 && (time.Since(began) != 2*time.Second || row.body != nil && resp.Header.Get("Got-Body") != "text") {
				t.Errorf("%s: %q after %v, want Retry-After twice", row.name, resp.Header.Get("Got-Body"), time.Since(began))
			}
			if row.want == 503 && n.Load() != 1 {
				t.Errorf("%s: sent %d times", row.name, 2-n.Load())
			}
		})
	}
}

// http.Transport sends what has an Idempotency-Key again when a connection that
// was used before breaks under it. Ours sends a write once, with the header.
func TestNoReplay(t *testing.T) {
	for _, row := range []struct {
		name  string
		base  http.RoundTripper
		token string
		want  int32
	}{
		{"http.Transport", http.DefaultTransport, "", 2},
		{"Transport", &Transport{}, "1", 1},
	} {
		addr, copies := breaking(t)
		reused := false
		for try := 0; !reused; try++ {
			if try == 100 {
				t.Fatalf("%s: no connection was used again: this shows nothing", row.name)
			}
			copies.Store(0)
			resp, err := put(row.base, WithToken(t.Context(), row.token), "http://"+addr+"/", "")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			// http.Transport does not keep a connection whose writer is late to say that
			// all was written.
			first := true
			ctx := httptrace.WithClientTrace(WithToken(t.Context(), row.token), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
				reused = reused || first && c.Reused
				first = false
			}})
			if resp, err := put(row.base, ctx, "http://"+addr+"/", "Idempotency-Key"); err == nil {
				_ = resp.Body.Close()
				t.Fatalf("%s: %s", row.name, resp.Status)
			}
		}
		if n := copies.Load(); n != row.want {
			t.Errorf("%s: %d copies arrived, want %d", row.name, n, row.want)
		}
	}
}

func put(base http.RoundTripper, ctx context.Context, url, header string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, nil)
	if err != nil {
		return nil, err
	}
	if header != "" {
		req.Header.Set(header, "x")
	}
	return base.RoundTrip(req)
}

// breaking is a server that answers what has no idempotency key, and closes on
// what has one. It counts those.
func breaking(t *testing.T) (addr string, copies *atomic.Int32) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	copies = new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					if req.Header.Get("Idempotency-Key") != "" {
						copies.Add(1)
						return
					}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}()
		}
	}()
	return l.Addr().String(), copies
}

// Bodies stream both ways: nothing is kept back until the other end is done.
func TestStreams(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		b := make([]byte, 1)
		for {
			if _, err := r.Body.Read(b); err != nil {
				w.Header().Set("Sum", r.Trailer.Get("Sum"))
				return
			}
			_, _ = w.Write(b)
			_ = http.NewResponseController(w).Flush()
		}
	})
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(WithToken(t.Context(), "1"), http.MethodPut, url, in)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = out.Write([]byte("a")) }()
	resp, err := (&http.Client{Transport: &Transport{RetryFor: time.Minute}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b := make([]byte, 1)
	for _, c := range "abc" {
		if c != 'a' {
			_, _ = out.Write([]byte(string(c)))
		}
		if _, err := io.ReadFull(resp.Body, b); err != nil || b[0] != byte(c) {
			t.Fatalf("%q %v", b, err)
		}
	}
	_ = out.Close()
}

// Trailers are filled in by the caller while the body is read.
func TestTrailers(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Sum", r.Trailer.Get("Sum"))
	})
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(WithToken(t.Context(), "1"), http.MethodPut, url, in)
	if err != nil {
		t.Fatal(err)
	}
	req.Trailer = http.Header{"Sum": nil}
	go func() {
		_, _ = out.Write([]byte("a"))
		req.Trailer.Set("Sum", "42")
		_ = out.Close()
	}()
	resp, err := (&http.Client{Transport: &Transport{}}).Do(req)
	if err != nil || resp.Header.Get("Sum") != "42" {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
}
