package upstream

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// opening is the handshake of RFC 6455, section 1.3, and fitting its 101.
func opening() *Request {
	r := put()
	r.Method, r.Body, r.Length = "GET", nil, 0
	r.Header["Sec-Websocket-Key"] = []string{"dGhlIHNhbXBsZSBub25jZQ=="}
	r.Header["Connection"] = []string{"keep-alive, Upgrade"}
	r.Header["Upgrade"] = []string{"websocket"}
	r.WebSocket = true
	return r
}

const (
	switching = "HTTP/1.1 101 Switching Protocols\r\n"
	upgrading = "Upgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\n"
	fitting   = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
)

// A 101 that was not asked for, or not like this, opens nothing, and nobody
// knows what became of the request.
func TestSwitchRefused(t *testing.T) {
	for name, row := range map[string]struct {
		req    func(*Request)
		answer string
	}{
		"to a PUT":                {func(r *Request) { *r = *put() }, switching + upgrading + fitting},
		"to a GET":                {func(r *Request) { r.WebSocket = false }, switching + upgrading + fitting},
		"to HTTP/1.0":             {nil, "HTTP/1.0 101 S\r\n" + upgrading + fitting},
		"no Upgrade":              {nil, switching + "Connection: Upgrade\r\n" + fitting},
		"another Upgrade":         {nil, switching + "Upgrade: h2c\r\nConnection: Upgrade\r\n" + fitting},
		"a list":                  {nil, switching + "Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n" + fitting},
		"two Upgrades":            {nil, switching + upgrading + "Upgrade: h2c\r\n" + fitting},
		"no Connection":           {nil, switching + "Upgrade: websocket\r\n" + fitting},
		"Connection says another": {nil, switching + "Upgrade: websocket\r\nConnection: close\r\n" + fitting},
		"no accept":               {nil, switching + upgrading},
		"an accept that misfits":  {nil, switching + upgrading + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOp=\r\n"},
		"two accepts":             {nil, switching + upgrading + fitting + fitting},
		"accepts another key":     {func(r *Request) { r.Header["Sec-Websocket-Key"] = []string{"x"} }, switching + upgrading + fitting},
	} {
		t.Run(name, func(t *testing.T) {
			u, _, done := listen(t, func(w *wire) {
				if head := w.head(); strings.HasPrefix(head, "PUT") {
					w.body(len(hello))
				}
				w.say(row.answer + "\r\nbehind")
			})
			r := opening()
			if row.req != nil {
				row.req(r)
			}
			res := exchangeOnce(t, context.Background(), u, r)
			done()
			if res.status != 0 || res.outcome != unsettled(ReasonBadAnswer) {
				t.Errorf("%d, %v, %v; want an error, unsettled (bad-answer)", res.status, res.outcome, res.err)
			}
		})
	}
}

// A handshake that is refused has an answer like every other request.
func TestSwitchNotTaken(t *testing.T) {
	u, _, done := listen(t, func(w *wire) { w.head(); w.say("HTTP/1.1 103 E\r\n\r\n" + ok) })
	res := exchangeOnce(t, context.Background(), u, opening())
	done()
	if res.outcome != settled || res.status != 200 || res.body != "ok" || res.answer.Tunnel != nil {
		t.Errorf("%d %q, %v, tunnel %v", res.status, res.body, res.outcome, res.answer.Tunnel)
	}
}

func TestHandshakeOnTheWire(t *testing.T) {
	head := make(chan string, 1)
	u, _, done := listen(t, func(w *wire) { head <- w.head(); w.say(ok) })
	exchangeOnce(t, context.Background(), u, opening())
	done()
	got := <-head
	for _, line := range []string{"GET /accounts/42?x=%61 HTTP/1.1\r\n", "\r\nConnection: Upgrade\r\n", "\r\nUpgrade: websocket\r\n", "\r\nSec-Websocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"} {
		if strings.Count(got, line) != 1 {
			t.Errorf("%q stands not once in %q", line, got)
		}
	}
	if strings.Count(got, "Connection:") != 1 || strings.Count(got, "Upgrade:") != 1 || strings.Contains(got, "Content-Length") {
		t.Errorf("%q", got)
	}
}

// What cannot be a handshake is not sent as one.
func TestHandshakeChecked(t *testing.T) {
	u := newUpstream(t, "http://127.0.0.1:1")
	for name, change := range map[string]func(*Request){
		"a PUT":  func(r *Request) { r.Method = "PUT" },
		"a body": func(r *Request) { r.Body, r.Length = bytes.NewReader([]byte("x")), 1 },
	} {
		r := opening()
		change(r)
		if res := exchangeOnce(t, context.Background(), u, r); res.outcome != notSent(ReasonBadRequest) {
			t.Errorf("%s: %v", name, res.outcome)
		}
	}
}

// The tunnel begins right behind the 101, passes both ends on, and is unsettled
// however it ends.
func TestTunnel(t *testing.T) { playTunnel(t, listen) }

// TestTunnelTLS: the same, encrypted both ways.
func TestTunnelTLS(t *testing.T) { playTunnel(t, listenTLS) }

func playTunnel(t *testing.T, listen func(*testing.T, func(*wire)) (*Upstream, chan struct{}, func())) {
	for name, row := range map[string]struct {
		end  func(a *Answer)
		want Reason
	}{
		"both ended": {func(a *Answer) { a.Tunnel.End(ReasonEnded, nil); a.Tunnel.End(ReasonCut, ErrCut) }, ReasonEnded},
		"cut":        {func(a *Answer) { a.Tunnel.End(ReasonCut, ErrCut) }, ReasonCut},
		"closed":     {func(*Answer) {}, ReasonAbandoned},
	} {
		t.Run(name, func(t *testing.T) {
			u, _, done := listen(t, func(w *wire) {
				w.head()
				w.say(switching + upgrading + fitting + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\nfirst")
				w.body(2)
				w.say("late")
				if rest, err := io.ReadAll(w.br); string(rest) != "bye" || err != nil {
					w.t.Errorf("%q, %v; want bye and an end", rest, err)
				}
				w.say("last")
				w.CloseWrite()
			})
			a, err := u.Send(context.Background(), opening())
			if err != nil {
				t.Fatal(err)
			}
			if h := a.Header; a.Status != 101 || h.Get("X-A") != "1" || h.Get("Content-Length") != "" || h.Get("Transfer-Encoding") != "" || h.Get("Upgrade") != "" || h.Get("Sec-Websocket-Accept") == "" {
				t.Errorf("%d %v", a.Status, h)
			}
			if n, err := a.Read(make([]byte, 9)); n != 0 || err == nil || err == io.EOF {
				t.Errorf("the body of a 101: %d, %v", n, err)
			}
			got := make([]byte, len("first"))
			if _, err := io.ReadFull(a.Tunnel, got); err != nil || string(got) != "first" {
				t.Errorf("%q, %v", got, err)
			}
			io.WriteString(a.Tunnel, "hi")
			if _, err := io.ReadFull(a.Tunnel, got[:4]); err != nil || string(got[:4]) != "late" {
				t.Errorf("%q, %v", got[:4], err)
			}
			io.WriteString(a.Tunnel, "bye")
			if err := a.Tunnel.CloseWrite(); err != nil {
				t.Error(err)
			}
			if rest, err := io.ReadAll(a.Tunnel); string(rest) != "last" || err != nil {
				t.Errorf("%q, %v", rest, err)
			}
			if got := a.Outcome(); got != unsettled(ReasonUnfinished) {
				t.Errorf("while it is open: %v", got)
			}
			row.end(a)
			a.Close()
			done()
			if got := a.Outcome(); got != unsettled(row.want) {
				t.Errorf("outcome %v, want %v", got, unsettled(row.want))
			}
			if _, err := a.Tunnel.Write([]byte("x")); err == nil {
				t.Error("a byte left behind the end")
			}
		})
	}
}

// A tunnel has no time limit, either way: the response timeout is over with the
// 101.
func TestTunnelSilent(t *testing.T) {
	script := func(w *wire) {
		w.head()
		w.say(switching + upgrading + fitting + "\r\n")
		time.Sleep(time.Hour)
		w.say("late")
		w.body(len(hello))
	}
	for name, listen := range map[string]func(*testing.T) (*Upstream, func()){
		"in clear text": func(t *testing.T) (*Upstream, func()) { return piped(t, script) },
		"over TLS": func(t *testing.T) (*Upstream, func()) {
			u, done := pipedTLS(t, func(c net.Conn) net.Conn { return c }, script)
			u.h2.dialHTTP1 = u.dial
			return u, done
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u, done := listen(t)
				a, err := u.Send(context.Background(), opening())
				if err != nil {
					t.Fatal(err)
				}
				got := make([]byte, len("late"))
				if _, err := io.ReadFull(a.Tunnel, got); err != nil || string(got) != "late" {
					t.Errorf("after an hour: %q, %v", got, err)
				}
				if _, err := io.WriteString(a.Tunnel, hello); err != nil {
					t.Errorf("after an hour: %v", err)
				}
				a.Close()
				done()
			})
		})
	}
}

// End wakes who reads and who writes.
func TestTunnelEndWakes(t *testing.T) {
	u, _, done := listen(t, func(w *wire) { w.head(); w.say(switching + upgrading + fitting + "\r\n"); w.wait() })
	a, err := u.Send(context.Background(), opening())
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan error, 2)
	go func() { _, err := io.Copy(a.Tunnel, &zeros{1 << 40}); ends <- err }()
	go func() { _, err := io.Copy(io.Discard, a.Tunnel); ends <- err }()
	time.AfterFunc(50*time.Millisecond, func() { a.Tunnel.End(ReasonCut, ErrCut) })
	for range 2 {
		if err := <-ends; err == nil {
			t.Error("a copy ended well")
		}
	}
	a.Close()
	done()
}
