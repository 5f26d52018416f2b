package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// sent sends r on a goroutine of its own.
func sent(t *testing.T, u *Upstream, r *Request) <-chan result {
	c := make(chan result, 1)
	go func() { c <- exchangeOnce(t, context.Background(), u, r) }()
	return c
}

func wantSettled(t *testing.T, name string, res result) {
	t.Helper()
	if res.outcome != settled || res.body != "ok" {
		t.Errorf("%s: %v %d %q (%v), want a settled 200 ok", name, res.outcome, res.status, res.body, res.err)
	}
}

// An upload that the upstream does not read takes its connection's window for
// good. What comes later must not wait for it, whatever its size.
func TestH2StuckUpload(t *testing.T) {
	stuck := make(chan struct{})
	u, event, done := listenH2(t, nil,
		func(w *h2wire) {
			w.head()
			w.body(h2FirstWindow) // and no WINDOW_UPDATE
			close(stuck)
			w.ok(w.request()) // no body: it shares the connection
			<-w.event
		},
		func(w *h2wire) {
			w.ok(w.request())
			w.head()
			w.drain(3)
			w.ok(3)
		})
	shared := func() *Request { r := put(); r.Follow = false; return r }
	r := shared()
	large(r)
	cut := make(chan struct{})
	r.Cut = cut
	slow := sent(t, u, r)
	<-stuck
	get := shared()
	get.Method, get.Body, get.Length = "GET", nil, 0
	wantSettled(t, "without a body", exchangeOnce(t, context.Background(), u, get))
	wantSettled(t, "with a small one", exchangeOnce(t, context.Background(), u, shared()))
	big := shared()
	large(big)
	big.Length = 1 << 20
	big.Body = &zeros{1 << 20}
	wantSettled(t, "with a large one", exchangeOnce(t, context.Background(), u, big))
	close(cut)
	if res := <-slow; res.outcome != unsettled(ReasonCut) || !errors.Is(res.err, ErrCut) {
		t.Errorf("the stuck one: %v, %v; want it cut", res.outcome, res.err)
	}
	close(event)
	done()
}

// A raise cuts an upload whose client stalls, and the upstream hears of it.
func TestH2Cut(t *testing.T) {
	u, event, done := listenH2(t, nil, func(w *h2wire) {
		id := w.head().id
		w.body(2)
		close(w.event)
		if code := w.waitReset(id); code != http2.ErrCodeCancel {
			t.Errorf("reset with %v, want CANCEL", code)
		}
		w.ok(w.request()) // the connection goes on
	})
	r := put()
	stalled(r)
	r.Cut = event
	if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonCut) || !errors.Is(res.err, ErrCut) {
		t.Errorf("outcome %v, error %v; want it cut", res.outcome, res.err)
	}
	next := put()
	next.Body, next.Interrupt = io.MultiReader(next.Body), func() {}
	wantSettled(t, "the next upload", exchangeOnce(t, context.Background(), u, next))
	done()
}

// Nothing that has to be cut waits for a connection that takes no bytes.
func TestH2CutWhileNothingIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		u, done := pipedH2(t, func(w *h2wire) { w.head(); <-over })
		first := put()
		large(first)
		cut := make(chan struct{})
		first.Cut = cut
		one := sent(t, u, first)
		synctest.Wait() // its body is stuck in the pipe
		start := time.Now()
		close(cut)
		if res := <-one; res.outcome != unsettled(ReasonCut) {
			t.Errorf("outcome %v, want it cut", res.outcome)
		}
		if took := time.Since(start); took > h2StuckWrite {
			t.Errorf("the cut took %v", took)
		}
		close(over)
		done()
	})
}

// A client that does not read its answer stops its own stream only, and costs
// no more than the stream's window.
func TestH2SlowReader(t *testing.T) {
	u, _, done := listenH2(t, nil, func(w *h2wire) {
		id := w.request()
		w.say(id, "200", false)
		for range h2StreamWindow / h2Frame {
			w.data(id, strings.Repeat("x", h2Frame), false)
		}
		for range 20 { // far more than the connection's window in all
			next := w.request()
			w.say(next, "200", false)
			for range h2StreamWindow / h2Frame {
				w.data(next, strings.Repeat("y", h2Frame), false)
			}
			w.data(next, "", true)
		}
		w.data(id, "", true)
	})
	slow, err := u.Send(context.Background(), put())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if res := exchangeOnce(t, context.Background(), u, put()); res.outcome != settled || len(res.body) != h2StreamWindow {
			t.Fatalf("another: %v, %d bytes (%v)", res.outcome, len(res.body), res.err)
		}
	}
	if b, err := io.ReadAll(slow); len(b) != h2StreamWindow || err != nil {
		t.Errorf("the slow one got %d bytes, %v", len(b), err)
	}
	slow.Close()
	if o := slow.Outcome(); o != settled {
		t.Errorf("the slow one: %v", o)
	}
	done()
}

// An upstream that sends more than it may is not trusted any more: otherwise
// slow clients could cost any amount of memory.
func TestH2WindowOverrun(t *testing.T) {
	u, event, done := listenH2(t, nil, func(w *h2wire) {
		id := w.request()
		w.say(id, "200", false)
		for range h2StreamWindow/h2Frame + 1 {
			w.data(id, strings.Repeat("x", h2Frame), false)
		}
		io.Copy(io.Discard, w)
		close(w.event)
	})
	a, err := u.Send(context.Background(), put())
	if err != nil {
		t.Fatal(err)
	}
	<-event
	if b, err := io.ReadAll(a); len(b) > h2StreamWindow || err == nil {
		t.Errorf("%d bytes, %v; want an error within the window", len(b), err)
	}
	a.Close()
	if o := a.Outcome(); o != unsettled(ReasonBadAnswer) {
		t.Errorf("outcome %v", o)
	}
	done()
}

// Requests whose answers nobody reads, and who asks for replies that it does not
// read, are bounded.
func TestH2Flood(t *testing.T) {
	c := &h2conn{}
	c.wake.L = &c.mu
	c.nc = nopConn{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for range h2MaxReplies {
		c.reply(func(*http2.Framer) {})
	}
	if c.err != nil {
		t.Fatalf("given up too early: %v", c.err)
	}
	if c.reply(func(*http2.Framer) {}); !errors.Is(c.err, errFlood) {
		t.Errorf("error %v, want a flood", c.err)
	}
}

// A panic in the caller's code leaves no stream behind.
func TestH2Panic(t *testing.T) {
	u, _, done := listenH2(t, nil, func(w *h2wire) {
		id := w.request()
		w.say(id, "103", false)
		w.waitReset(id)
		w.ok(w.request())
	})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		r := put()
		r.Informational = func(int, http.Header) { panic("x") }
		u.Send(context.Background(), r)
	}()
	wantSettled(t, "the next", exchangeOnce(t, context.Background(), u, put()))
	done()
}

// nopConn is a connection that can only be closed.
type nopConn struct{ net.Conn }

func (nopConn) Close() error { return nil }

// Once Send has returned, nothing of its request is in use: also where the
// writer, on a connection that takes nothing, comes to it later.
func TestH2NothingInUseAfterSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		u, done := pipedH2(t, func(w *h2wire) { w.head(); <-goOn; w.readOn() })
		first := put()
		large(first)
		cut := make(chan struct{})
		first.Cut = cut
		one := sent(t, u, first)
		synctest.Wait() // its body is stuck in the pipe
		c := u.h2.conns[0]
		c.mu.Lock()
		c.open++ // as take would have done before the write was stuck
		c.mu.Unlock()
		late := put()
		late.Method, late.Body, late.Length = "GET", nil, 0
		late.Timeout = h2PassOver / 2
		over := false
		late.MaySend = func() bool {
			if over {
				t.Error("the leave was asked after Send had returned")
			}
			return true
		}
		_, _, err := c.exchange(context.Background(), late, h2need{})
		c.mu.Lock()
		over = true
		c.mu.Unlock()
		var e *Error
		if !errors.As(err, &e) || e.Outcome != notSent(ReasonTimeout) {
			t.Errorf("error %v, want it not sent", err)
		}
		close(goOn)
		synctest.Wait() // the writer has come to it
		close(cut)
		<-one
		done()
	})
}
