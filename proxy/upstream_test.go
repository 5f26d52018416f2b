package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// played starts an upstream that is played byte by byte, on each connection,
// and puts the proxy in front of it.
func (r *rig) played(play func(c net.Conn), change func(o *Options, rules []Rule)) {
	r.Helper()
	l := listen(r.T)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				play(c)
			}()
		}
	}()
	r.proxy("http://"+l.Addr().String(), change)
}

// raw is played for what comes behind a request that was read to its end.
func (r *rig) raw(play func(c net.Conn, br *bufio.Reader), change func(o *Options, rules []Rule)) {
	r.Helper()
	r.played(func(c net.Conn) {
		br := bufio.NewReader(c)
		if req, err := http.ReadRequest(br); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
		}
		play(c, br)
	}, change)
}

// What happened at the upstream: what the client is told, and for how long
// the write counts as running.
func TestUpstreamOutcomes(t *testing.T) {
	say := func(s string) func(net.Conn, *bufio.Reader) {
		return func(c net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(c, strings.ReplaceAll(s, "\n", "\r\n")) }
	}
	tests := []struct {
		name      string
		play      func(net.Conn, *bufio.Reader)
		status    int
		problem   wire.Name
		result    string
		forwarded string
		unsettled bool
		broken    bool // the client sees an answer that ends short
	}{
		{"answered", say("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"), 200, "", "admitted", "yes", false, false},
		{"refused by the API", say("HTTP/1.1 422 No\nContent-Length: 2\n\nno"), 422, "", "admitted", "yes", false, false},
		{"reset", func(c net.Conn, _ *bufio.Reader) { _ = c.(*net.TCPConn).SetLinger(0) }, 502, wire.OutcomeUnknown, "admitted", "unknown", true, false},
		{"silence", func(_ net.Conn, br *bufio.Reader) { _, _ = io.Copy(io.Discard, br) }, 504, wire.OutcomeUnknown, "admitted", "unknown", true, false},
		{"half an answer", say("HTTP/1.1 200 OK\nContent-Length: 10\n\nhalf"), 200, "", "admitted", "yes", true, true},
		{"half a chunk", say("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nab"), 200, "", "admitted", "yes", true, true},
		{"accepted", say("HTTP/1.1 202 Later\nContent-Length: 0\n\n"), 202, "", "admitted", "yes", true, false},
		{"bad gateway behind", say("HTTP/1.1 502 Bad\nContent-Length: 0\n\n"), 502, "", "admitted", "yes", true, false},
		{"forged fencing headers", say("HTTP/1.1 200 OK\nFencing-Result: rejected\nFencing-Forwarded: no\nfencing-other: x\nContent-Length: 0\n\n"), 200, "", "admitted", "yes", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.leaves = true
			r.raw(tt.play, func(_ *Options, rules []Rule) {
				rules[0].Settle = time.Minute
				if tt.status == 504 {
					rules[0].ResponseTimeout = 200 * time.Millisecond
				}
			})
			c := r.dial().put("1", "x")
			res := c.receive()
			if res.StatusCode != tt.status || res.Header.Get("Fencing-Result") != tt.result || res.Header.Get("Fencing-Forwarded") != tt.forwarded ||
				len(res.Header.Values("Fencing-Result")) != 1 || res.Header.Get("Fencing-Other") != "" {
				t.Errorf("%s %v", res.Status, res.Header)
			}
			if (res.err != nil) != tt.broken {
				t.Errorf("broken: %v, want %v", res.err, tt.broken)
			}
			if tt.problem != "" {
				if p := c.problem(res); p.Name() != tt.problem || p.Retryable || p.Forwarded != wire.ForwardedUnknown {
					t.Errorf("%+v", p)
				}
			}
			r.eventually("it is over or unsettled", func() bool { return r.gate.Counts().InFlight == 0 })
			if got := r.gate.Counts().Unsettled == 1; got != tt.unsettled {
				t.Errorf("unsettled: %v, want %v", got, tt.unsettled)
			}
		})
	}
}

// Nothing was sent where no connection could be made: the next one does not
// wait.
func TestUpstreamUnreachable(t *testing.T) {
	r := newRig(t, nil)
	l := listen(t)
	_ = l.Close()
	r.proxy("http://"+l.Addr().String(), nil)
	for range 2 {
		c := r.dial().put("1", "x")
		res := c.receive()
		p := c.problem(res)
		if res.StatusCode != 502 || p.Name() != wire.UpstreamUnreachable || !p.Retryable || p.Forwarded != wire.ForwardedNo ||
			res.Header.Get("Fencing-Result") != "admitted" || res.Header.Get("Fencing-Forwarded") != "no" {
			t.Errorf("%s %s", res.Status, res.body)
		}
		if n := r.gate.Counts(); n.InFlight+n.Unsettled != 0 {
			t.Errorf("%+v", n)
		}
	}
}

// What no fence touches carries no fencing header and needs no token.
func TestUnfenced(t *testing.T) {
	r := newRig(t, func(o *Options, _ []Rule) { o.ForwardUnmatched = true })
	for _, head := range []string{"GET /accounts/42", "POST /login", "PUT /other", "HEAD /accounts/42"} {
		method, _, _ := strings.Cut(head, " ")
		c := r.dial().send(head + " HTTP/1.1\nHost: a\nContent-Length: 0\n\n")
		a := r.next()
		a.answer()
		res, err := http.ReadResponse(c.br, &http.Request{Method: method})
		if err != nil || res.StatusCode != 200 || res.Header.Get("Fencing-Result") != "" || res.Header.Get("Fencing-Forwarded") != "" {
			t.Errorf("%s: %v %v", head, res, err)
		}
	}
}

// An upstream that answers before it has read the request's small body takes
// nothing from the client's connection: its next request is served like the
// first one.
func TestAnswerBeforeBody(t *testing.T) {
	r := newRig(t, nil)
	r.played(func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			_, _ = io.Copy(io.Discard, br)
		}
	}, nil)
	c := r.dial()
	for i := range 1000 {
		res := c.send("POST /login HTTP/1.1\nHost: a\nContent-Length: 100\n\n" + strings.Repeat("x", 100)).receive()
		if res.StatusCode != 200 || res.body != "ok" {
			t.Fatalf("request %d: %s %q", i, res.Status, res.body)
		}
		if res.Close { // the body's end came after the answer
			c = r.dial()
		}
	}
}

// The request arrives as the client sent it, with one token header.
func TestForwardedAsItCame(t *testing.T) {
	r := newRig(t, nil)
	c := r.dial().send("PUT /accounts/it%27s?a=1;b=%zz&c HTTP/1.1\nHost: api.example\nx-fencing-token: 007\nX-Rewrite-URL: /other\n" +
		"X-Thing: 1\nx-thing: 2\nTransfer-Encoding: chunked\nTrailer: X-Sum, X-Fencing-Token\n\n3\nabc\n0\nX-Sum: 9\nX-Fencing-Token: 99\n\n")
	a := r.next()
	a.answer()
	h := a.r.Header
	if a.r.RequestURI != "/accounts/it%27s?a=1;b=%zz&c" || a.r.Host != "api.example" || a.body != "abc" {
		t.Errorf("%s %s %q", a.r.RequestURI, a.r.Host, a.body)
	}
	if got := h["X-Fencing-Token"]; len(got) != 1 || got[0] != "007" {
		t.Errorf("token header: %q", got)
	}
	if h.Get("X-Rewrite-URL") != "" || len(h["X-Thing"]) != 2 || h.Get("X-Forwarded-For") != "127.0.0.1" || h.Get("X-Forwarded-Host") != "api.example" || h.Get("X-Forwarded-Proto") != "http" {
		t.Errorf("%v", h)
	}
	if a.r.Trailer.Get("X-Sum") != "9" || a.r.Trailer.Get("X-Fencing-Token") != "" {
		t.Errorf("trailer: %v", a.r.Trailer)
	}
	if res := c.receive(); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	if n, ok := r.highest("account:it%27s"); !ok || n != 7 {
		t.Errorf("highest is %d, %v", n, ok)
	}
}

// Parts of an answer reach the client as they come; so do trailers and 103.
func TestAnswerStreams(t *testing.T) {
	r := newRig(t, nil)
	step := make(chan struct{})
	r.raw(func(c net.Conn, _ *bufio.Reader) {
		for _, part := range []string{
			"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n",
			"5\r\nfirst\r\n",
			"6\r\nsecond\r\n",
			"0\r\nX-Sum: 9\r\n\r\n",
		} {
			_, _ = io.WriteString(c, part)
			<-step
		}
	}, nil)
	c := r.dial().put("1", "")
	_ = c.SetReadDeadline(time.Now().Add(soon))
	hints, err := http.ReadResponse(c.br, nil)
	if err != nil || hints.StatusCode != 103 || hints.Header.Get("Link") != "</x>" {
		t.Fatalf("%v %v", hints, err)
	}
	step <- struct{}{}
	res, err := http.ReadResponse(c.br, nil)
	if err != nil || res.StatusCode != 200 || res.Header.Get("Link") != "" || res.Header.Get("Content-Type") != "" {
		t.Fatalf("%v %v", res, err)
	}
	for _, want := range []string{"first", "second"} {
		step <- struct{}{}
		buf := make([]byte, len(want))
		if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != want {
			t.Fatalf("%q %v", buf, err)
		}
	}
	step <- struct{}{}
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.Trailer.Get("X-Sum") != "9" {
		t.Errorf("trailer %v, %v", res.Trailer, err)
	}
	close(step)
}

// An early refusal reaches a client that is still uploading.
func TestEarlyRefusal(t *testing.T) {
	r := newRig(t, nil)
	r.played(func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n")
	}, nil)
	c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 10000000\n\n" + strings.Repeat("x", 2000))
	if res := c.receive(); res.StatusCode != 413 || res.body != "no\n" || res.Header.Get("Fencing-Result") != "admitted" {
		t.Errorf("%s %q", res.Status, res.body)
	}
	if n := r.gate.Counts(); n.InFlight+n.Unsettled != 0 {
		t.Errorf("an early refusal settles: %+v", n)
	}
}

// A panic on the way leaves the write unsettled.
func TestPanicLeavesUnsettled(t *testing.T) {
	r := newRig(t, func(_ *Options, rules []Rule) { rules[0].Settle = time.Minute })
	r.leaves = true
	r.handler.books.current.Load().Upstream = nil
	c := r.dial().put("1", "")
	if _, err := c.br.ReadByte(); err == nil {
		t.Error("a panic was answered")
	}
	if n := r.gate.Counts(); n.Unsettled != 1 || n.InFlight != 0 {
		t.Errorf("%+v", n)
	}
}
