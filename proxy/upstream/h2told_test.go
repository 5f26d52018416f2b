package upstream

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// toldLate is a connection whose writes are told of some time after they came to
// the other end, and as failed ones once that has broken them.
type toldLate struct {
	net.Conn
	broken *atomic.Bool
}

func (c toldLate) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	time.Sleep(time.Millisecond)
	if c.broken.Load() {
		return n - 1, errors.New("broken pipe")
	}
	return n, err
}

// pipedLate is pipedH2 over such connections.
func pipedLate(t *testing.T, broken *atomic.Bool, scripts ...func(*h2wire)) (u *Upstream, done func()) {
	t.Helper()
	u, done = pipedH2(t, scripts...)
	dial := u.dial
	u.dial = func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		return toldLate{c, broken}, err
	}
	return u, done
}

// The answer and the end of the connection come before the writer has told of a
// part of an upload that is not the last. Nobody will tell of the end again, and
// the client sends nothing more: the upload must not wait for it.
func TestH2EndsBehindAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, done := pipedLate(t, new(atomic.Bool), func(w *h2wire) {
			id := w.head().id
			w.body(2)
			w.ok(id)
		})
		r := put()
		stalled(r)
		if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonReset) || res.body != "ok" {
			t.Errorf("%v, answer %q (%v); want the answer, and the upload's end unknown", res.outcome, res.body, res.err)
		}
		done()
	})
}

// The same of a request that leaves in one write, which fails: it had been stopped
// before, by an answer that refused it or by a reset behind one, and the failure
// has nothing to stop any more.
func TestH2EndsBehindAStoppedWrite(t *testing.T) {
	for name, row := range map[string]struct {
		status string
		reset  bool
		want   Outcome
	}{
		"refused": {"400", false, settled},
		"reset":   {"200", true, unsettled(ReasonReset)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken := new(atomic.Bool)
				u, done := pipedLate(t, broken, func(w *h2wire) {
					id := w.request()
					w.say(id, row.status, true)
					if row.reset {
						w.rst(id, http2.ErrCodeNo)
					}
					broken.Store(true)
				})
				r := put()
				r.Follow = false // else its time would end it
				if res := exchangeOnce(t, context.Background(), u, r); res.outcome != row.want || res.err != nil {
					t.Errorf("%v (%v), want %v", res.outcome, res.err, row.want)
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

// Others' bytes may keep it from leaving, for as long as the upstream takes none of
// them: a newer write does not wait for that.
func TestH2LostIsNotToldForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		u, done := pipedH2(t, func(w *h2wire) {
			w.request() // and never answers
			w.head()    // of the other, and reads no more
			<-over
		})
		r := put()
		r.Timeout = time.Second
		start := time.Now()
		lost := sent(t, u, r)
		synctest.Wait()
		other := sent(t, u, long(put()))
		if res := <-lost; res.outcome != unsettled(ReasonTimeout) {
			t.Errorf("outcome %v (%v)", res.outcome, res.err)
		}
		if took := time.Since(start); took > r.Timeout+h2StuckWrite {
			t.Errorf("it was called lost after %v", took)
		}
		close(over)
		<-other
		done()
	})
}
