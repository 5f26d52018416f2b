package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestHintDeadline: a write got a 103, was overtaken, and then got no answer. What
// bounds the reading of the 103 does not bound the news that its outcome is not
// known.
func TestHintDeadline(t *testing.T) {
	breakOff := make(chan struct{})
	r := newRig(t, nil)
	r.played(func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		if req.Header.Get("X-Fencing-Token") != "1" {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
		<-breakOff
	}, nil)
	c := r.dial().put("1", "x")
	if hint := c.receive(); hint.StatusCode != 103 {
		t.Fatalf("%d, want 103", hint.StatusCode)
	}
	newer := r.dial().put("2", "x")
	r.eventually("the newer write waits", func() bool { return r.gate.Counts().Waiting == 1 })
	time.Sleep(2 * grace)
	close(breakOff)
	if res := c.receive(); res.StatusCode != 502 || res.err != nil {
		t.Errorf("%d %q %v, want 502", res.StatusCode, res.body, res.err)
	}
	if res := newer.receive(); res.StatusCode != 200 {
		t.Errorf("the newer write: %d %q", res.StatusCode, res.body)
	}
}
