package upstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serveH2 starts net/http's server as an upstream that speaks h2c.
func serveH2(t testing.TB, h http.HandlerFunc) *Upstream {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	u := patient(newH2(t, s.Listener.Addr().String()))
	t.Cleanup(func() { u.Close(); s.Close() })
	return u
}

// TestH2Fidelity sends what a server of the standard library has to find as it
// was sent, and back.
func TestH2Fidelity(t *testing.T) {
	got := make(chan *http.Request, 1)
	u := serveH2(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header()["X-Two"] = []string{"1", "2"}
		w.WriteHeader(http.StatusEarlyHints)
		io.Copy(w, r.Body)
		w.Header().Set("X-Sum", "9")
		got <- r
	})
	r := put()
	r.Target = "/a%2Fb;x//?q=%zz"
	r.Header = http.Header{
		"X-Fencing-Token": {"7"}, "Cookie": {"a=1; b=2"}, "Te": {"trailers, deflate"}, "X-Two": {"1", "2"},
		"Connection": {"X-Hop"}, "X-Hop": {"1"}, "Keep-Alive": {"1"}, "Upgrade": {"h2c"}, "Http2-Settings": {"x"}, "Expect": {"100-continue"},
	}
	body := strings.Repeat("some bytes ", 100_000)
	r.Body, r.Length, r.Interrupt = io.MultiReader(strings.NewReader(body)), -1, func() {}
	r.Trailer = func() http.Header { return http.Header{"X-Client-Sum": {"8"}} }
	hints := 0
	r.Informational = func(status int, h http.Header) {
		if hints++; status != 103 || h.Get("X-Two") != "1" {
			t.Errorf("1xx %d %v", status, h)
		}
	}
	res := exchangeOnce(t, context.Background(), u, r)
	if res.outcome != settled || res.body != body || hints != 1 {
		t.Errorf("%v, %d bytes back, %d hints, %v", res.outcome, len(res.body), hints, res.err)
	}
	if v := res.answer.Trailer["X-Sum"]; len(v) != 1 || v[0] != "9" {
		t.Errorf("trailers %v", res.answer.Trailer)
	}
	if v := res.answer.Header["X-Two"]; len(v) != 2 {
		t.Errorf("header %v", res.answer.Header)
	}
	s := <-got
	if s.RequestURI != r.Target || s.Host != r.Host || s.Method != "PUT" || s.ProtoMajor != 2 {
		t.Errorf("the upstream got %s %s %s for %s", s.Proto, s.Method, s.RequestURI, s.Host)
	}
	for name, want := range map[string]string{
		"X-Fencing-Token": "7", "Cookie": "a=1; b=2", "Te": "trailers", "X-Forwarded-For": "192.0.2.1", "X-Forwarded-Host": r.Host,
		"X-Hop": "", "Keep-Alive": "", "Upgrade": "", "Http2-Settings": "", "Expect": "", "Connection": "", "User-Agent": "", "Accept-Encoding": "",
	} {
		if got := s.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(s.Header["X-Two"]) != 2 || s.Trailer.Get("X-Client-Sum") != "8" {
		t.Errorf("header %v, trailers %v", s.Header, s.Trailer)
	}
}

// Both sides stream at the same time: what is sent is answered before the
// request ends.
func TestH2BothWays(t *testing.T) {
	u := serveH2(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		buf := make([]byte, 64)
		for {
			n, err := r.Body.Read(buf)
			w.Write(bytes.ToUpper(buf[:n]))
			w.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	})
	pr, pw := io.Pipe()
	r := put()
	r.Body, r.Length, r.Interrupt = pr, -1, func() { pr.CloseWithError(io.ErrClosedPipe) }
	a, err := u.Send(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	for range 10 {
		io.WriteString(pw, "ping")
		if n, err := io.ReadFull(a, buf[:4]); string(buf[:n]) != "PING" {
			t.Fatalf("got %q, %v", buf[:n], err)
		}
	}
	if o := a.Outcome(); o != unsettled(ReasonUnfinished) {
		t.Errorf("on the way: %v", o)
	}
	pw.Close()
	if _, err := a.Read(buf); err != io.EOF {
		t.Errorf("end: %v", err)
	}
	<-a.UploadDone()
	if o := a.Outcome(); o != settled {
		t.Errorf("at the end: %v", o)
	}
	a.Close()
}

// Many requests of every size at once: nothing is mixed up, refused or left.
func TestH2Many(t *testing.T) {
	u := serveH2(t, func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, err := io.Copy(h, r.Body)
		if err != nil || r.Header.Get("X-Size") != fmt.Sprint(n) {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintf(w, "%x", h.Sum(nil))
	})
	sizes := []int{0, 1, 1000, h2Frame, h2Frame + 1, h2FirstWindow, maxJoined, maxJoined + 1, 300_000}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i, size := range sizes {
				body := bytes.Repeat([]byte{byte(i)}, size)
				r := put()
				r.Header = http.Header{"X-Size": {fmt.Sprint(size)}}
				r.Body, r.Length = bytes.NewReader(body), int64(size)
				if i%2 == 1 {
					r.Body, r.Length, r.Interrupt = io.MultiReader(bytes.NewReader(body)), -1, func() {}
				}
				res := exchangeOnce(t, context.Background(), u, r)
				if want := fmt.Sprintf("%x", sha256.Sum256(body)); res.outcome != settled || res.status != 200 || res.body != want {
					t.Errorf("%d bytes: %v %d (%v)", size, res.outcome, res.status, res.err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(u.h2.conns); n > 2*16 { // for what is in memory, and for uploads
		t.Errorf("%d connections for 16 clients", n)
	}
	u.Close()
	noH2Left(t)
}

// A large answer flows through a window that is much smaller.
func TestH2LargeAnswer(t *testing.T) {
	const size = 8 << 20
	u := serveH2(t, func(w http.ResponseWriter, r *http.Request) { io.CopyN(w, &zeros{size}, size) })
	r := put()
	r.Timeout = 30 * time.Second
	if res := exchangeOnce(t, context.Background(), u, r); res.outcome != settled || len(res.body) != size {
		t.Errorf("%v, %d bytes (%v)", res.outcome, len(res.body), res.err)
	}
}

// The context of a request that is not followed ends it; the upstream is told.
func TestH2Canceled(t *testing.T) {
	begun, told := make(chan struct{}), make(chan struct{})
	u := serveH2(t, func(w http.ResponseWriter, r *http.Request) { close(begun); <-r.Context().Done(); close(told) })
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-begun; cancel() }()
	if res := exchangeOnce(t, ctx, u, put()); res.outcome != unsettled(ReasonCanceled) {
		t.Errorf("outcome %v", res.outcome)
	}
	<-told
}

// Over TLS the upstream chooses the protocol, on each connection anew.
func TestALPN(t *testing.T) {
	a := newAuthority(t)
	for name, row := range map[string]struct {
		offers []string
		want   string
	}{
		"both": {[]string{"h2", "http/1.1"}, "HTTP/2.0"}, "HTTP/2 alone": {[]string{"h2"}, "HTTP/2.0"},
		"HTTP/1.1 alone": {[]string{"http/1.1"}, "HTTP/1.1"}, "nothing": {nil, "HTTP/1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int32
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				io.WriteString(w, r.Proto+" "+r.Host)
			}))
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					conns.Add(1)
				}
			}
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetHTTP1(true)
			s.Config.Protocols.SetHTTP2(true)
			s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(nil)}, NextProtos: row.offers}
			l := tls.NewListener(s.Listener, s.TLS)
			go s.Config.Serve(l)
			defer s.Config.Close()
			u := patient(a.upstream(s.Listener.Addr().String(), time.Minute, nil))
			defer u.Close()
			for range 5 {
				for _, body := range []io.Reader{bytes.NewReader([]byte(hello)), io.MultiReader(strings.NewReader(hello))} {
					r := put()
					r.Body, r.Interrupt = body, func() {}
					if res := exchangeOnce(t, context.Background(), u, r); res.outcome != settled || res.body != row.want+" "+r.Host {
						t.Errorf("%v %q (%v), want %s", res.outcome, res.body, res.err, row.want)
					}
				}
			}
			want := int32(1)
			if row.want == "HTTP/2.0" {
				want = 2 // uploads have one of their own
			}
			if n := conns.Load(); n != want {
				t.Errorf("%d connections for one request after the other, want %d", n, want)
			}
		})
	}
}

// With TLS 1.3 the upstream refuses our certificate behind the handshake. Over
// HTTP/2 its SETTINGS are waited for, so that nothing was sent by then.
func TestH2CertificateRefused(t *testing.T) {
	a := newAuthority(t)
	l, config := a.listen(func(c *tls.Config) { c.ClientAuth, c.NextProtos = tls.RequireAnyClientCert, []string{"h2"} })
	_, done := play(t, l, func(w *wire) {
		if err := tls.Server(w.Conn, config).Handshake(); err == nil {
			t.Error("the handshake succeeded")
		}
	})
	res := exchangeOnce(t, context.Background(), a.upstream(l.Addr().String(), time.Minute, nil), put())
	if res.outcome != notSent(ReasonTLS) || !strings.Contains(res.err.Error(), "upstream.tls.cert_file") {
		t.Errorf("outcome %v, error %v; want not sent (tls)", res.outcome, res.err)
	}
	done()
}

// BenchmarkPutH2 is BenchmarkPut over h2c, by this package and by
// http.Transport. Compare cpu-ns/op between the rows of one run only.
func BenchmarkPutH2(b *testing.B) {
	u := serveH2(b, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write([]byte("ok"))
	})
	body := bytes.Repeat([]byte("x"), 256)
	b.Run("upstream", func(b *testing.B) {
		cpu(b, func() {
			r := put()
			r.Body, r.Length = bytes.NewReader(body), int64(len(body))
			a, err := u.Send(context.Background(), r)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, a); err != nil || a.Outcome().Fate == NotSent {
				b.Fatal(err, a.Outcome())
			}
			a.Close()
		})
	})
	b.Run("transport", func(b *testing.B) {
		t := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
		t.Protocols.SetUnencryptedHTTP2(true)
		defer t.CloseIdleConnections()
		cpu(b, func() {
			r, _ := http.NewRequest("PUT", "http://"+u.addr+"/accounts/42?x=%61", bytes.NewReader(body))
			r.Header.Set("X-Fencing-Token", "7")
			resp, err := t.RoundTrip(r)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	})
}

// A websocket is opened over HTTP/1.1, also where the upstream would rather
// speak HTTP/2.
func TestH2WebSocket(t *testing.T) {
	a := newAuthority(t)
	l, config := a.listen(func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} })
	_, done := play(t, tls.NewListener(l, config), func(w *wire) {
		w.head()
		w.say(switching + upgrading + fitting + "\r\nhello")
	})
	u := a.upstream(l.Addr().String(), time.Minute, nil)
	answer, err := u.Send(context.Background(), opening())
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, len("hello"))
	if _, err := io.ReadFull(answer.Tunnel, buf); err != nil || string(buf) != "hello" {
		t.Errorf("through the tunnel: %q, %v", buf, err)
	}
	answer.Close()
	done()

	u = newH2(t, "127.0.0.1:9")
	if res := exchangeOnce(t, context.Background(), u, opening()); res.outcome != notSent(ReasonBadRequest) {
		t.Errorf("over h2c: %v (%v)", res.outcome, res.err)
	}
}
