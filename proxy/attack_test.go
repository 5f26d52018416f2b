package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Attacks that once succeeded, each in its smallest form.

// An answer that comes before the upload's end: what is left of the body is
// never read as the next request.
func TestRestOfUploadIsNoRequest(t *testing.T) {
	for _, tt := range []struct{ name, target, answer string }{
		{"unfenced", "/login", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"},
		{"unfenced, elsewhere", "/login", "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"},
		{"fenced", "/accounts/42", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			var injected atomic.Int64
			r.played(func(c net.Conn) {
				br := bufio.NewReader(c)
				line, _ := br.ReadString('\n')
				if strings.Contains(line, "/accounts/7") {
					injected.Add(1)
				}
				for line != "\r\n" && line != "" {
					line, _ = br.ReadString('\n')
				}
				_, _ = io.WriteString(c, tt.answer)
				time.Sleep(500 * time.Millisecond) // and never reads the upload
			}, nil)
			inner := "PUT /accounts/7 HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 1\r\nContent-Length: 0\r\n\r\n"
			c := r.dial().send(fmt.Sprintf("PUT %s HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: %d\n\n", tt.target, 10+10*len(inner)))
			_, _ = io.WriteString(c.Conn, "0123456789")
			time.Sleep(200 * time.Millisecond) // the answer is there
			if tt.target == "/login" {         // a fenced one is followed to the end of its upload
				if res := c.receive(); !res.Close {
					t.Errorf("the connection is kept: %s %v", res.Status, res.Header)
				}
			}
			_, _ = io.WriteString(c.Conn, strings.Repeat(inner, 10))
			_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
			_, _ = io.Copy(io.Discard, c.Conn)
			if n := injected.Load(); n > 0 {
				t.Errorf("a request out of the body reached the upstream")
			}
		})
	}
}

// L2 in all its forms: whatever an old holder does not read, the new one
// waits for the upstream only.
func TestStoryL2Everywhere(t *testing.T) {
	hints := "HTTP/1.1 103 Early Hints\r\nLink: " + strings.Repeat("x", 4000) + "\r\n\r\n"
	for _, tt := range []struct {
		name   string
		answer func(c net.Conn)
	}{
		{"1xx answers", func(c net.Conn) {
			for range 4000 {
				if _, err := io.WriteString(c, hints); err != nil {
					return
				}
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}},
		{"the first piece", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n")
			_, _ = c.Write(make([]byte, 16<<20))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.played(func(c net.Conn) {
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				if req.Header.Get("X-Fencing-Token") == "1" || req.Method == "GET" {
					tt.answer(c)
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}, nil)
			a := r.dial()
			_ = a.Conn.(*net.TCPConn).SetReadBuffer(4096)
			a.put("1", "")
			r.eventually("w1 is in flight", func() bool { return r.gate.Counts().InFlight == 1 })
			time.Sleep(100 * time.Millisecond)
			if res := r.dial().put("2", "").receive(); res.StatusCode != 200 { // within its patience
				t.Errorf("w2: %s", res.Status)
			}
		})
	}
}

// Clients that send a head and no body take no room from others, and are not
// waited for without end.
func TestStalledBodies(t *testing.T) {
	r := newRig(t, func(o *Options, _ []Rule) {
		o.MaxBodyBuffer, o.MaxBuffered, o.BodyTimeout = 64<<10, 256<<10, 500*time.Millisecond
	})
	var stalled []*conn
	for range 20 {
		stalled = append(stalled, r.dial().send("PUT /accounts/1 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 65536\n\n"))
	}
	time.Sleep(50 * time.Millisecond)
	c := r.dial().put("1", "small")
	r.next().answer()
	if res := c.receive(); res.StatusCode != 200 {
		t.Errorf("a write among stalled ones: %s", res.Status)
	}
	for _, s := range stalled {
		_ = s.SetReadDeadline(time.Now().Add(soon))
		if _, err := io.Copy(io.Discard, s.Conn); err != nil {
			t.Fatalf("a stalled client is still waited for: %v", err)
		}
	}
	r.eventually("their room is free again", func() bool { return r.handler.buffered.Load() == 0 })
}

// An upstream's 1xx and the 100 of an Expect are not written into each other.
func TestExpectAndHints(t *testing.T) {
	r := newRig(t, nil)
	r.played(func(c net.Conn) {
		br := bufio.NewReader(c)
		for line := "x"; line != "\r\n" && line != ""; {
			line, _ = br.ReadString('\n')
		}
		_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nFencing-Result: forged\r\n\r\n")
		_, _ = io.CopyN(io.Discard, br, 3)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}, nil)
	for range 30 {
		c := r.dial().send("POST /login HTTP/1.1\nHost: a\nExpect: 100-continue\nContent-Length: 3\n\n")
		var seen []int
		for {
			_ = c.SetReadDeadline(time.Now().Add(soon))
			res, err := http.ReadResponse(c.br, nil)
			if err != nil {
				t.Fatalf("after %v: %v", seen, err)
			}
			seen = append(seen, res.StatusCode)
			if res.StatusCode == 100 {
				c.send("abc")
			}
			if res.StatusCode == 103 && res.Header.Get("Fencing-Result") != "" {
				t.Error("a forged Fencing-Result passes in a 103")
			}
			if res.StatusCode == 200 {
				break
			}
		}
		if len(seen) != 3 {
			t.Fatalf("answers: %v", seen)
		}
	}
}

// A client that leaves bytes behind its request and goes is gone.
func TestClientLeavesBytesBehind(t *testing.T) {
	r := newRig(t, func(_ *Options, rules []Rule) {
		rules[0].DrainTimeout, rules[0].ResponseTimeout = time.Minute, time.Minute
	})
	r.dial().put("1", "")
	w1 := r.next()
	b := r.dial().put("2", "")
	r.eventually("w2 waits", func() bool { return r.gate.Counts().Waiting == 1 })
	b.send("\n\n")
	time.Sleep(20 * time.Millisecond)
	_ = b.Close()
	r.eventually("w2 is forgotten", func() bool { return r.gate.Counts().Waiting == 0 })
	w1.answer()
	r.nothing("w2's client has left")
}

// A body that is no body is told, not taken for a client that left.
func TestBrokenChunk(t *testing.T) {
	r := newRig(t, nil)
	c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nTransfer-Encoding: chunked\n\nzz\nabc\n")
	if res := c.receive(); res.StatusCode != 400 || !res.Close {
		t.Errorf("%s", res.Status)
	}
	r.nothing("a broken body")
	if _, ok := r.highest("account:42"); ok {
		t.Error("a broken body raised its key")
	}
}

// A trailer that is none is told like a broken body, before its write has raised
// anything: in what was read ahead, and where it is only announced.
func TestBrokenTrailer(t *testing.T) {
	r := newRig(t, func(o *Options, _ []Rule) { o.MaxBodyBuffer = 1000 })
	for name, rest := range map[string]string{
		"a space in its name": "Transfer-Encoding: chunked\n\n3\nabc\n0\nX-Sum : 1\n\n",
		"NUL in it":           "Transfer-Encoding: chunked\n\n3\nabc\n0\nX-Sum: a\x00b\n\n",
		"announced":           "Trailer: X Sum\nTransfer-Encoding: chunked\n\n7d0\n" + strings.Repeat("x", 2000) + "\n",
	} {
		c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\n" + rest)
		if res := c.receive(); res.StatusCode != 400 || !res.Close {
			t.Errorf("%s: %s", name, res.Status)
		}
		r.nothing(name)
		if _, ok := r.highest("account:42"); ok {
			t.Errorf("%s: its key was raised", name)
		}
	}
}

// What an upstream says in the fence's name does not reach the client, as a
// trailer either.
func TestForgedTrailer(t *testing.T) {
	r := newRig(t, nil)
	r.raw(func(c net.Conn, _ *bufio.Reader) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Fencing-Result, X-Sum\r\n\r\n0\r\nFencing-Result: forged\r\nX-Sum: 9\r\n\r\n")
	}, nil)
	res := r.dial().put("1", "").receive()
	if got := res.Header.Values("Fencing-Result"); len(got) != 1 || got[0] != "admitted" {
		t.Errorf("Fencing-Result: %q", got)
	}
	if res.Trailer.Get("X-Sum") != "9" || len(res.Trailer) != 1 {
		t.Errorf("trailer: %v", res.Trailer)
	}
}

// A write whose upload is cut behind an early 2xx is not told that it is done.
func TestCutBehindEarlyAnswer(t *testing.T) {
	r := newRig(t, nil)
	answered := make(chan struct{})
	r.api.serve = func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Fencing-Token") != "1" {
			return
		}
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		w.Header().Set("Content-Length", "3")
		_, _ = io.WriteString(w, "ok\n")
		_ = rc.Flush()
		close(answered)
		_, _ = io.Copy(io.Discard, req.Body)
	}
	a := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 100000\n\n" + strings.Repeat("x", 5000))
	<-answered
	time.Sleep(50 * time.Millisecond) // mostly for long enough to reach the proxy before the cut does
	b := r.dial().put("2", "")
	_ = a.SetReadDeadline(time.Now().Add(soon))
	if res, err := http.ReadResponse(a.br, nil); err == nil && res.StatusCode == 200 {
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("w1 is told a whole %s", res.Status)
		}
	}
	if res := b.receive(); res.StatusCode != 200 {
		t.Errorf("w2: %s", res.Status)
	}
}
