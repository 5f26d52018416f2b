package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"testing"
	"time"
)

// TestLongStream: upload and answer go on side by side for longer than
// response_timeout, which counts from the upload's end.
func TestLongStream(t *testing.T) {
	const timeout = 1500 * time.Millisecond
	r := newRig(t, nil)
	r.played(func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		w := httputil.NewChunkedWriter(c)
		buf := make([]byte, 3)
		for {
			if _, err := io.ReadFull(req.Body, buf); err != nil {
				break
			}
			_, _ = w.Write(buf)
		}
		_ = w.Close()
		_, _ = io.WriteString(c, "\r\n")
	}, func(o *Options, rules []Rule) {
		rules[0].ResponseTimeout = timeout
		o.MaxBodyBuffer = 3
	})
	c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nTransfer-Encoding: chunked\n\n3\none\n")
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	res, err := http.ReadResponse(c.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, res.Body, "one")
	for range 3 {
		time.Sleep(timeout * 2 / 5)
		c.send("3\ntwo\n")
		expect(t, res.Body, "two")
	}
	c.send("0\n\n")
	if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v; want the end", rest, err)
	}
}
