package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// A broken answer to HTTP/1.0 has no other end than a reset: over TLS a
// close_notify before it makes the answer whole.
func TestOverTLSTruncatedHTTP10(t *testing.T) {
	r := newRig(t, nil)
	r.raw(func(c net.Conn, _ *bufio.Reader) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		time.Sleep(50 * time.Millisecond)
	}, nil)
	c := r.dial().send("GET /x HTTP/1.0\nHost: a\n\n")
	_ = c.SetReadDeadline(time.Now().Add(soon))
	b, err := io.ReadAll(c.Conn.(*tls.Conn))
	if err == nil {
		t.Errorf("a truncated answer ends cleanly (close_notify): %q", b)
	}
}

// Clients that do not read their answers must not use up max_buffered: their
// writes are over, and the next ones are refused for nothing.
func TestSlowReadersKeepNoBuffers(t *testing.T) {
	r := newRig(t, nil)
	var served atomic.Int64
	r.api.serve = func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(w, strings.Repeat("x", 20<<10))
		served.Add(1)
	}
	const writes = 64 // 64 KiB of max_buffered in all
	c := r.dialHTTP2(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for i := range writes {
		id := c.open(false, "x-fencing-token", "1", ":path", fmt.Sprintf("/accounts/%d", i))
		c.data(id, strings.Repeat("y", 1000), true)
	}
	r.eventually("all are over", func() bool { return served.Load() == writes && r.gate.Counts().InFlight == 0 })
	r.eventually("nothing is reserved", func() bool { return r.handler.buffered.Load() == 0 })
	k := r.dial().put("1", "a body")
	if res := k.receive(); res.StatusCode != 200 {
		t.Errorf("another client's write: %d %s", res.StatusCode, res.Header.Get("Fencing-Result"))
	}
	_ = c.Close()
}

// A client that does not read must not keep its write in flight for longer than
// the response timeout: a stop waits for it, and ends without the clean marker.
func TestSlowReaderIsDetachedInTime(t *testing.T) {
	for _, proto := range []string{"http/1.1", "h2"} {
		t.Run(proto, func(t *testing.T) {
			r := newRig(t, func(o *Options, rules []Rule) {
				rules[0].ResponseTimeout, rules[0].Settle = time.Second, 100*time.Millisecond
			})
			arrived := make(chan struct{})
			r.api.serve = func(w http.ResponseWriter, req *http.Request) {
				close(arrived)
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.CopyN(w, zeroes{}, 64<<20)
			}
			var c io.Closer
			if proto == "h2" {
				h := r.dialHTTP2(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
				h.data(h.put("1", "x"), "", true)
				c = h
			} else {
				c = r.dial().put("1", "x")
			}
			<-arrived
			r.eventually("it is over", func() bool { return r.gate.Counts().InFlight == 0 })
			_ = c.Close()
		})
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { return len(p), nil }

// The client's end over TLS: it does not read, and a raise ends it all the same.
func TestOverTLSWebSocket(t *testing.T) {
	for name, story := range map[string]func(*testing.T){
		"raise": TestWebSocketRaise, "unfenced": TestWebSocketUnfenced, "hostile": TestWebSocketHostile,
	} {
		t.Run(name, story)
	}
}
