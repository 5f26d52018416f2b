package upstream

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// toldLate is a connection whose writes are told of some time after they came to
// the other end.
type toldLate struct {
	net.Conn
	by time.Duration
}

func (c toldLate) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	time.Sleep(c.by)
	return n, err
}

// tellLate makes u's connections tell late.
func tellLate(u *Upstream, by time.Duration) {
	dial := u.dial
	u.dial = func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		return toldLate{c, by}, err
	}
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
		tellLate(u, time.Millisecond)
		r := put()
		stalled(r)
		if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonReset) || res.body != "ok" {
			t.Errorf("%v, answer %q (%v); want the answer, and the upload's end unknown", res.outcome, res.body, res.err)
		}
		done()
	})
}

// A machine that stands still behind the first write, the ACK of the upstream's
// SETTINGS, makes the new connection seem stuck. The request that it was made for
// has no other to go on, and waits.
func TestH2FirstWaitsForItsConnection(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"whole":  func(r *Request) {},
		"upload": func(r *Request) { r.Body, r.Interrupt = io.MultiReader(r.Body), func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u, done := pipedH2(t, func(w *h2wire) { w.ok(w.request()) })
				tellLate(u, 2*h2PassOver)
				r := put()
				change(r)
				ctx, need := context.Background(), needOf(r)
				nc, err := u.dial(ctx)
				if err != nil {
					t.Fatal(err)
				}
				c, err := u.h2.open(ctx, nc, &need)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // until the writer is in its first write
				a, _, err := c.exchange(ctx, r, need)
				if err != nil {
					t.Fatal(err)
				}
				if _, err = io.ReadAll(a); err != nil {
					t.Error(err)
				}
				<-a.UploadDone()
				a.Close()
				if a.Outcome() != settled {
					t.Errorf("outcome %v", a.Outcome())
				}
				done()
			})
		})
	}
}

// takenLate is a connection that takes what is written after some time.
type takenLate struct {
	net.Conn
	by time.Duration
}

func (c takenLate) Write(p []byte) (int, error) {
	time.Sleep(c.by)
	return c.Conn.Write(p)
}

// A write is not called lost before its RST_STREAM has left: what an upstream does
// about a request that breaks off, it does then, and settle begins with the word.
func TestH2LostIsToldFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const by = h2StuckWrite / 2
		var told time.Time
		u, done := pipedH2(t, func(w *h2wire) {
			w.waitReset(w.head().id)
			told = time.Now()
		})
		dial := u.dial
		u.dial = func(ctx context.Context) (net.Conn, error) {
			c, err := dial(ctx)
			return takenLate{c, by}, err
		}
		r, cut := put(), make(chan struct{})
		r.Cut = cut
		stalled(r)
		time.AfterFunc(time.Second, func() { close(cut) })
		if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonCut) {
			t.Errorf("outcome %v (%v)", res.outcome, res.err)
		}
		lost := time.Now()
		done()
		if told.After(lost) {
			t.Errorf("told %v after it was called lost", told.Sub(lost))
		}
	})
}
