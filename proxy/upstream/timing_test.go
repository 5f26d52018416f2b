package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// piped is an upstream behind a pipe, which takes a byte only when the script
// reads it. The returned function waits for the script's end.
func piped(t *testing.T, script func(*wire)) (u *Upstream, done func()) {
	t.Helper()
	near, far := net.Pipe()
	u = newUpstream(t, "http://127.0.0.1")
	u.dial = func(context.Context) (net.Conn, error) { return near, nil }
	w := &wire{t: t, Conn: far, br: bufio.NewReaderSize(far, 16), event: make(chan struct{}), finish: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer far.Close()
		script(w)
	}()
	return u, func() { close(w.finish); <-ended }
}

// TestTiming plays in virtual time. The response timeout is 10 s throughout.
func TestTiming(t *testing.T) {
	reads := func(r *Request) { r.Method, r.Body, r.Length, r.Follow = "GET", nil, 0, false }
	slowClient := func(pause time.Duration, n int) func(*Request) {
		return func(r *Request) {
			r.Body, r.Length, r.Interrupt = &slow{pause, n}, int64(n), func() {}
		}
	}
	trickle := func(head string, pause time.Duration, n int) func(*wire) {
		return func(w *wire) {
			w.head()
			w.say(head)
			for range n {
				time.Sleep(pause)
				w.say("x")
			}
		}
	}
	rows := []struct {
		name   string
		req    func(*Request)
		script func(*wire)
		want   Outcome
		after  time.Duration
	}{
		{"an answer just in time", nil, func(w *wire) { w.request(); time.Sleep(9 * time.Second); w.say(ok) }, settled, 9 * time.Second},
		{"silence", nil, func(w *wire) { w.request(); w.wait() }, unsettled(ReasonTimeout), 10 * time.Second},
		{"half a head", nil, func(w *wire) { w.request(); w.say(ok[:20]); w.wait() }, unsettled(ReasonTimeout), 10 * time.Second},
		{"a followed answer that never ends", nil, func(w *wire) { w.request(); trickleBody(w, 4*time.Second) }, unsettled(ReasonTimeout), 10 * time.Second},
		{"103 does not buy time", nil, func(w *wire) {
			w.request()
			for range 2 {
				time.Sleep(9 * time.Second)
				w.say("HTTP/1.1 103 E\r\n\r\n")
			}
			w.wait()
		}, unsettled(ReasonTimeout), 10 * time.Second},
		{"a read has time for its body", reads, trickle("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 9*time.Second, 9), settled, 81 * time.Second},
		{"a read has no time for a late head", reads, func(w *wire) { w.head(); w.wait() }, unsettled(ReasonTimeout), 10 * time.Second},
		{"the client's pauses do not count", slowClient(time.Minute, 3), func(w *wire) { w.head(); w.body(3); time.Sleep(9 * time.Second); w.say(ok) }, settled, 3*time.Minute + 9*time.Second},
		{"a slow upstream that takes bytes", func(r *Request) { r.Body, r.Length, r.Interrupt = &zeros{64}, 64, func() {} }, func(w *wire) {
			w.head()
			for range 4 {
				time.Sleep(6 * time.Second)
				w.body(16)
			}
			w.say(ok)
		}, settled, 24 * time.Second},
		{"an upstream that takes no byte", func(r *Request) { r.Body, r.Length, r.Interrupt = &zeros{64}, 64, func() {} }, func(w *wire) { w.head(); w.wait() }, unsettled(ReasonTimeout), 10 * time.Second},
		{"a head that is not taken", nil, func(w *wire) { w.wait() }, notSent(ReasonTimeout), 10*time.Second + firstWrite},
		{"a small body taken slowly", nil, func(w *wire) { w.head(); time.Sleep(5 * time.Second); w.body(5); w.say(ok) }, settled, 5 * time.Second},
		{"an early refusal while the upstream takes nothing", func(r *Request) { r.Body, r.Length, r.Interrupt = &zeros{64}, 64, func() {} }, func(w *wire) { w.head(); w.say(refusal[:50]); time.Sleep(time.Second); w.say(refusal[50:]); w.wait() }, settled, time.Second},
		{"the rest of an early refusal is late", slowClient(time.Minute, 1), func(w *wire) { w.head(); w.say(refusal[:50]); w.wait() }, unsettled(ReasonTimeout), time.Minute + 10*time.Second},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u, done := piped(t, row.script)
				r := put()
				if row.req != nil {
					row.req(r)
				}
				start := time.Now()
				res := exchangeOnce(t, context.Background(), u, r)
				if res.outcome != row.want {
					t.Errorf("outcome %v, want %v (%v)", res.outcome, row.want, res.err)
				}
				if took := time.Since(start); took < row.after || took > row.after+2*firstWrite {
					t.Errorf("after %v, want %v", took, row.after)
				}
				done()
			})
		})
	}
}

func trickleBody(w *wire, pause time.Duration) {
	w.say("HTTP/1.1 200 OK\r\n\r\n")
	for {
		time.Sleep(pause)
		if _, err := io.WriteString(w, "x"); err != nil {
			return
		}
	}
}

// slow gives one byte after every pause, n in all.
type slow struct {
	pause time.Duration
	n     int
}

func (s *slow) Read(p []byte) (int, error) {
	if s.n == 0 {
		return 0, io.EOF
	}
	time.Sleep(s.pause)
	s.n--
	return copy(p, "x"), nil
}

// Cut and the context end a small request that waits for the upstream to take
// it, and the context also one that waits for its answer.
func TestEnds(t *testing.T) {
	gone := errors.New("client gone")
	for name, row := range map[string]struct {
		script func(*wire)
		cut    bool
		want   Outcome
		err    error
	}{
		"cut while nothing is taken":       {func(w *wire) { w.wait() }, true, notSent(ReasonCut), ErrCut},
		"cut while the head is half taken": {func(w *wire) { w.br.ReadByte(); w.wait() }, true, unsettled(ReasonCut), ErrCut},
		"canceled while it is sent":        {func(w *wire) { w.br.ReadByte(); w.wait() }, false, unsettled(ReasonCanceled), gone},
		"canceled while the answer is due": {func(w *wire) { w.request(); w.wait() }, false, unsettled(ReasonCanceled), gone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u, done := piped(t, row.script)
				r := put()
				ctx, cancel := context.WithCancelCause(context.Background())
				cut := make(chan struct{})
				r.Cut = cut
				start := time.Now()
				time.AfterFunc(time.Second, func() {
					if row.cut {
						close(cut)
					} else {
						cancel(gone)
					}
				})
				res := exchangeOnce(t, ctx, u, r)
				if res.outcome != row.want || !errors.Is(res.err, row.err) {
					t.Errorf("outcome %v, error %v; want %v, %v", res.outcome, res.err, row.want, row.err)
				}
				if took := time.Since(start); took != time.Second {
					t.Errorf("after %v, want 1s", took)
				}
				cancel(nil)
				done()
			})
		})
	}
}

func TestCanceledBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, done := piped(t, func(w *wire) {
			if b, _ := io.ReadAll(w); len(b) > 0 {
				t.Errorf("sent %q, want nothing", b)
			}
		})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r := put()
		r.MaySend = func() bool { t.Error("asked for leave although the context is over"); return true }
		if res := exchangeOnce(t, ctx, u, r); res.outcome != notSent(ReasonCanceled) {
			t.Errorf("outcome %v, want not-sent (canceled)", res.outcome)
		}
		done()
	})
}
