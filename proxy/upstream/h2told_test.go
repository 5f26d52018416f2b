package upstream

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// toldLate is a connection whose writes are told of some time after they came to
// the other end.
type toldLate struct{ net.Conn }

func (c toldLate) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	time.Sleep(time.Millisecond)
	return n, err
}

// The answer and the end of the connection come before the writer has told of a
// part of an upload that is not the last. Nobody will tell of the end again, and
// the client sends nothing more: the upload must not wait for it.
func TestH2EndsBehindAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, done := pipedH2(t, func(w *h2wire) {
			id := w.head().id
			w.body(2)
			w.ok(id)
		})
		dial := u.dial
		u.dial = func(ctx context.Context) (net.Conn, error) {
			c, err := dial(ctx)
			return toldLate{c}, err
		}
		r := put()
		stalled(r)
		if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonReset) || res.body != "ok" {
			t.Errorf("%v, answer %q (%v); want the answer, and the upload's end unknown", res.outcome, res.body, res.err)
		}
		done()
	})
}
