package proxy

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// sockets is a rig whose upstream opens every websocket that it is asked for
// and hands its end to the test. Other requests are answered.
type sockets struct {
	*rig
	logs   *observer.ObservedLogs
	opened chan *opened
	others atomic.Int64 // requests that were no handshake
}

// opened is the upstream's end of a websocket.
type opened struct {
	*net.TCPConn
	br *bufio.Reader
	r  *http.Request
}

// newSockets starts a rig with a response timeout for /feed/{id}.
func newSockets(t *testing.T, timeout time.Duration) *sockets {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	s := &sockets{rig: newRig(t, nil), logs: logs, opened: make(chan *opened, 200)}
	s.played(func(c net.Conn) {
		br := bufio.NewReader(c)
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.Copy(io.Discard, r.Body)
			s.others.Add(1)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, accepted(r)+"hello")
		s.opened <- &opened{c.(*net.TCPConn), br, r}
		<-t.Context().Done() // the test closes it
	}, func(o *Options, rules []Rule) {
		o.Log = zap.New(core)
		at := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == "feed" })
		rules[at].ResponseTimeout = timeout
	})
	return s
}

// accepted is the 101 that fits a handshake.
func accepted(r *http.Request) string {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nFencing-Result: forged\r\nContent-Length: 3\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"
}

const handshake = " HTTP/1.1\nHost: a\nUpgrade: websocket\nConnection: keep-alive, Upgrade\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Version: 13\n"

// open opens a websocket and returns both of its ends; the client's has the
// 101, and nothing behind it, read.
func (s *sockets) open(target, headers string) (*conn, *opened, *http.Response) {
	s.Helper()
	c := s.dial().send("GET " + target + handshake + headers + "\n")
	_ = c.SetReadDeadline(time.Now().Add(soon))
	res, err := http.ReadResponse(c.br, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		s.Fatalf("%v, %v", res, err)
	}
	u := <-s.opened
	_ = u.SetReadDeadline(time.Now().Add(soon))
	s.Cleanup(func() { _ = u.Close() })
	return c, u, res
}

// lost waits for the log line of a websocket's end, and returns why it was
// lost from sight.
func (s *sockets) lost() string {
	s.Helper()
	var line map[string]any
	s.eventually("the end of a websocket is logged", func() bool {
		for _, e := range s.logs.FilterMessage("request").All() {
			if e.ContextMap()["status"] == int64(101) {
				line = e.ContextMap()
			}
		}
		return line != nil
	})
	why, _ := line["unsettled"].(string)
	return why
}

// say writes and expect reads, on either end.
func say(t testing.TB, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Errorf("%q: %v", text, err)
	}
}

func expect(t testing.TB, r io.Reader, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != text {
		t.Errorf("%q, %v; want %q", got, err, text)
	}
}

// expectEnd reads what is left; broken lets a reset count as an end.
func expectEnd(t testing.TB, r io.Reader, broken bool) {
	t.Helper()
	rest, err := io.ReadAll(r)
	if ne, ok := err.(net.Error); len(rest) > 0 || err != nil && (!broken || ok && ne.Timeout()) {
		t.Errorf("%q, %v; want the end", rest, err)
	}
}

// A websocket is a write in flight, its handshake like any other write. Bytes
// pass as they come, those behind the heads too, and so does either end.
func TestWebSocket(t *testing.T) {
	s := newSockets(t, time.Minute)
	c, u, res := s.open("/feed/1?x=%61", "X-Fencing-Token: 7\nSec-WebSocket-Protocol: a, b\n\nearly")
	if h := res.Header; h.Get("Fencing-Result") != "admitted" || len(h["Fencing-Result"]) != 1 || h.Get("Fencing-Forwarded") != "yes" ||
		h.Get("Upgrade") != "websocket" || h.Get("Connection") != "Upgrade" || h.Get("Content-Length") != "" || h.Get("Sec-WebSocket-Accept") == "" {
		t.Errorf("%v", h)
	}
	if h := u.r.Header; u.r.RequestURI != "/feed/1?x=%61" || h.Get("X-Fencing-Token") != "7" || h.Get("Connection") != "Upgrade" || h.Get("Upgrade") != "websocket" ||
		h.Get("Sec-WebSocket-Protocol") != "a, b" || h.Get("Sec-WebSocket-Version") != "13" || h.Get("X-Forwarded-For") == "" {
		t.Errorf("%s %v", u.r.RequestURI, h)
	}
	if n, ok := s.highest("feed:1"); !ok || n != 7 {
		t.Errorf("highest %d, %v", n, ok)
	}
	expect(t, c.br, "hello")
	expect(t, u.br, "early\r\n")
	big := strings.Repeat("0123456789", 100_000)
	go func() { say(t, c, big); _ = c.Conn.(*net.TCPConn).CloseWrite() }()
	expect(t, u.br, big)
	expectEnd(t, u.br, false)
	if n := s.gate.Counts(); n.InFlight != 1 || n.Unsettled != 0 || s.measured() != 1 {
		t.Errorf("while it is open: %+v, %d figures", n, s.measured())
	}
	go func() { say(t, u, big); _ = u.CloseWrite() }()
	expect(t, c.br, big)
	expectEnd(t, c.br, false)
	if why := s.lost(); why != "ended" {
		t.Error(why)
	}
	s.handler.WaitTunnels()
	if n := s.measured(); n != 1 {
		t.Errorf("fenceproxy_upstream_seconds has %d figures behind the end", n)
	}
}

// measured is how many figures fenceproxy_upstream_seconds has.
func (r *rig) measured() uint64 {
	r.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(r.handler.Metrics.upstream)
	families, err := reg.Gather()
	if err != nil {
		r.Fatal(err)
	}
	return families[0].Metric[0].Histogram.GetSampleCount()
}

// TestWebSocketEnds is the table of how a websocket ends. Whatever it was, the
// write counts as running until the settle time behind it is over.
func TestWebSocketEnds(t *testing.T) {
	reset := func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }
	finish := func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() }
	tests := []struct {
		name string
		end  func(s *sockets, c *conn, u *opened)
		why  string

		timeout time.Duration
	}{
		{"the client first", func(s *sockets, c *conn, u *opened) { finish(c.Conn); expectEnd(s, u.br, false); finish(u.TCPConn) }, "ended", time.Minute},
		{"the upstream first", func(s *sockets, c *conn, u *opened) { finish(u.TCPConn); expectEnd(s, c.br, false); finish(c.Conn) }, "ended", time.Minute},
		{"the client breaks off", func(s *sockets, c *conn, u *opened) { reset(c.Conn); expectEnd(s, u.br, false); finish(u.TCPConn) }, "ended", time.Minute},
		{"the client is gone, and the upstream goes on for ever", func(s *sockets, c *conn, _ *opened) { finish(c.Conn) }, "timeout", 2 * time.Second},
		{"the upstream is gone, and the client goes on for ever", func(s *sockets, _ *conn, u *opened) { finish(u.TCPConn) }, "timeout", 2 * time.Second},
		{"the upstream breaks off", func(s *sockets, _ *conn, u *opened) { reset(u.TCPConn) }, "reset", time.Minute},
		{"raise", func(s *sockets, _ *conn, _ *opened) { s.raise("/feed/1", 2) }, "cut", time.Minute},
		{"raise while the client is gone", func(s *sockets, c *conn, u *opened) {
			finish(c.Conn)
			expectEnd(s, u.br, false)
			s.raise("/feed/1", 2)
		}, "cut", time.Minute},
		{"stop", func(s *sockets, _ *conn, _ *opened) { s.gate.Stop() }, "stopped", time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSockets(t, tt.timeout)
			c, u, _ := s.open("/feed/1", "X-Fencing-Token: 1\n")
			expect(t, c.br, "hello")
			tt.end(s, c, u)
			if why := s.lost(); why != tt.why {
				t.Errorf("unsettled: %q, want %q", why, tt.why)
			}
			s.handler.WaitTunnels()
			expectEnd(t, c.br, true)
			expectEnd(t, u.br, true)
		})
	}
}

// raise sends a PUT with a token, which nobody waits for.
func (r *rig) raise(target string, token int) *conn {
	r.Helper()
	return r.dial().send(fmt.Sprintf("PUT %s HTTP/1.1\nHost: a\nX-Fencing-Token: %d\nContent-Length: 0\n\n", target, token))
}

// A newer holder's write cuts the websocket at once, even where neither side
// takes what the other has sent, and goes out when the settle time is over.
func TestWebSocketRaise(t *testing.T) {
	for _, stuck := range []string{"nobody", "the client", "the upstream"} {
		t.Run(stuck, func(t *testing.T) {
			s := newSockets(t, time.Minute)
			c, u, _ := s.open("/feed/1", "X-Fencing-Token: 1\n")
			expect(t, c.br, "hello")
			full := make(chan error, 1)
			switch stuck {
			case "the client":
				s.fill(u, full)
			case "the upstream":
				s.fill(c, full)
			}
			next := s.raise("/feed/1", 2)
			s.eventually("the websocket is cut", func() bool { return s.logs.FilterField(zap.String("unsettled", "cut")).Len() == 1 })
			if stuck != "nobody" {
				if <-full == nil {
					t.Error("what nobody reads was taken")
				}
			} else {
				expectEnd(t, c.br, true)
				expectEnd(t, u.br, true)
			}
			if res := next.receive(); res.StatusCode != 200 || s.gate.Counts().Unsettled != 0 {
				t.Errorf("%s, %+v", res.Status, s.gate.Counts())
			}
			if late := s.dial().send("GET /feed/1" + handshake + "X-Fencing-Token: 1\n\n").receive(); late.StatusCode != 409 || !late.Close {
				t.Errorf("the old holder's next handshake: %s, close %v", late.Status, late.Close)
			}
		})
	}
}

// fill writes to one end until nothing moves any more: the proxy waits for the
// other end to read. full gets the error that ends the writing.
func (s *sockets) fill(to io.Writer, full chan<- error) {
	s.Helper()
	var taken atomic.Int64
	go func() {
		chunk := make([]byte, 64<<10)
		for {
			n, err := to.Write(chunk)
			taken.Add(int64(n))
			if err != nil {
				full <- err
				return
			}
		}
	}()
	before, still := int64(0), 0
	s.eventually("nothing moves any more", func() bool {
		now := taken.Load()
		if still++; now == 0 || now != before {
			before, still = now, 0
		}
		return still == 20
	})
}

// A handshake that is refused, by whomever, leaves the client's connection
// good for nothing: what it sent in the hope of a 101 is no request.
func TestWebSocketRefused(t *testing.T) {
	for _, tt := range []struct {
		name, answer, token string
		status              int
		unsettled           bool
	}{
		{"200", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "5", 200, false},
		{"426", "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n", "5", 426, false},
		{"200 and 103", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No\r\n\r\n", "5", 204, false},
		{"a 101 of another kind", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", "5", 502, true},
		{"a 101 by one who has not understood", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n", "5", 502, true},
		{"stale", "", "4", 409, false},
		{"no token", "", "", 428, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.leaves = true
			got := make(chan string, 10)
			r.raw(func(c net.Conn, br *bufio.Reader) {
				_, _ = io.WriteString(c, tt.answer)
				rest, _ := io.ReadAll(br)
				got <- string(rest)
			}, func(_ *Options, rules []Rule) {
				rules[slices.IndexFunc(rules, func(r Rule) bool { return r.Name == "feed" })].Settle = time.Minute
			})
			r.raised("feed:1", 5)
			token := ""
			if tt.token != "" {
				token = "X-Fencing-Token: " + tt.token + "\n"
			}
			c := r.dial().send("GET /feed/1" + handshake + token + "\nPUT /feed/1 HTTP/1.1\nHost: a\nX-Fencing-Token: 5\nContent-Length: 0\n\n")
			res := c.receive()
			for res.StatusCode == 103 {
				res = c.receive()
			}
			if res.StatusCode != tt.status || !res.Close {
				t.Errorf("%s, close %v", res.Status, res.Close)
			}
			if tt.status == 502 {
				if p := c.problem(res); p.Name() != wire.OutcomeUnknown || p.Forwarded != wire.ForwardedUnknown {
					t.Errorf("%+v", p)
				}
			}
			expectEnd(t, c.br, true)
			if n := r.gate.Counts(); n.InFlight != 0 || (n.Unsettled == 1) != tt.unsettled {
				t.Errorf("%+v", n)
			}
			if tt.answer != "" {
				if rest := <-got; rest != "" {
					t.Errorf("the upstream got %q behind the handshake", rest)
				}
			}
		})
	}
}

// Whatever else wants to leave HTTP does not pass, nor does a handshake that
// two servers could read in two ways.
func TestWebSocketHostile(t *testing.T) {
	r := newRig(t, nil)
	for name, request := range map[string]string{
		"another protocol":   "GET /feed/1 HTTP/1.1\nHost: a\nUpgrade: TLS/1.0\nConnection: Upgrade\nX-Fencing-Token: 1\n\n",
		"a list":             "GET /feed/1 HTTP/1.1\nHost: a\nUpgrade: websocket, h2c\nConnection: Upgrade\nX-Fencing-Token: 1\n\n",
		"two lines":          "GET /feed/1 HTTP/1.1\nHost: a\nUpgrade: websocket\nUpgrade: h2c\nConnection: Upgrade\nX-Fencing-Token: 1\n\n",
		"HTTP/1.0":           "GET /feed/1 HTTP/1.0\nHost: a\nUpgrade: websocket\nConnection: Upgrade\nX-Fencing-Token: 1\n\n",
		"a body":             "GET /feed/1 HTTP/1.1\nHost: a\nUpgrade: websocket\nConnection: Upgrade\nX-Fencing-Token: 1\nContent-Length: 1\n\nx",
		"a chunked body":     "GET /feed/1 HTTP/1.1\nHost: a\nUpgrade: websocket\nConnection: Upgrade\nX-Fencing-Token: 1\nTransfer-Encoding: chunked\n\n0\n\n",
		"PUT":                "PUT /feed/1 HTTP/1.1\nHost: a\nUpgrade: websocket\nConnection: Upgrade\nX-Fencing-Token: 1\nContent-Length: 0\n\n",
		"no such rule":       "GET /accounts/42 HTTP/1.1\nHost: a\nUpgrade: websocket\nConnection: Upgrade\nX-Fencing-Token: 1\n\n",
		"token as an option": "GET /feed/1 HTTP/1.1\nHost: a\nUpgrade: websocket\nConnection: Upgrade, X-Fencing-Token\nX-Fencing-Token: 1\n\n",
	} {
		c := r.dial().send(request)
		if res := c.receive(); res.StatusCode != 400 || res.Header.Get("Fencing-Forwarded") != "no" {
			t.Errorf("%s: %s %v", name, res.Status, res.Header)
		}
	}
	r.nothing("a hostile handshake")
}

// A websocket that no fence touches has nothing to say of one, cannot be cut
// by a raise, and ends with the proxy.
func TestWebSocketUnfenced(t *testing.T) {
	s := newSockets(t, time.Minute)
	c, u, res := s.open("/chat", "")
	if res.Header.Get("Fencing-Result") != "" || res.Header.Get("Fencing-Forwarded") != "" {
		t.Errorf("%v", res.Header)
	}
	expect(t, c.br, "hello")
	say(t, c, "hi")
	expect(t, u.br, "hi")
	if n := s.gate.Counts(); n.InFlight != 0 {
		t.Errorf("%+v", n)
	}
	s.gate.Stop()
	s.handler.WaitTunnels()
	expectEnd(t, c.br, true)
	expectEnd(t, u.br, true)
	if why := s.lost(); why != "" {
		t.Errorf("unsettled: %s", why)
	}
}
