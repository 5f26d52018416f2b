package upstream

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// TestReuseLongUpload sends an upload on a connection that was used before, whose
// client pauses for longer than the answer before had left of its time. That
// time counts no more: a client's pause is no fault of the upstream.
func TestReuseLongUpload(t *testing.T) {
	const chunks = "5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n"
	u, done := listenMany(t, func(n int, w *wire) {
		w.request()
		w.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")
		w.head()
		w.body(len(chunks))
		w.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2")
	})
	first := put()
	first.Timeout = 2 * time.Second
	u.pool.ttl = first.Timeout / 2 // so that the deadline is left as it is
	if res := exchangeOnce(t, context.Background(), u, first); res.outcome != settled {
		t.Fatalf("first: %v (%v)", res.outcome, res.err)
	}
	passed := time.After(first.Timeout + 100*time.Millisecond)
	second := put()
	pr, pw := io.Pipe()
	second.Body, second.Length, second.Interrupt = pr, -1, func() { pr.Close() }
	go func() {
		io.WriteString(pw, hello)
		<-passed
		io.Copy(pw, strings.NewReader(hello))
		pw.Close()
	}()
	if res := exchangeOnce(t, context.Background(), u, second); res.outcome != settled || res.body != "2" {
		t.Errorf("second: %v, answer %q, want it settled (%v)", res.outcome, res.body, res.err)
	}
	done()
}
