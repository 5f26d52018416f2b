package upstream

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// Requests share a connection up to the number of streams that the upstream
// takes; the next one has a connection of its own, and none waits.
func TestH2Shares(t *testing.T) {
	first := make(chan uint32)
	u, event, done := listenH2(t, []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 2}},
		func(w *h2wire) {
			a := w.request()
			first <- a
			b := w.request()
			<-w.event
			w.ok(b)
			w.ok(a)
		},
		func(w *h2wire) { w.ok(w.request()) })
	one := sent(t, u, put())
	if id := <-first; id != 1 {
		t.Errorf("the first stream is %d, want 1", id)
	}
	two := sent(t, u, put())
	for open(u) < 2 {
		time.Sleep(time.Millisecond)
	}
	wantSettled(t, "the third, on a connection of its own", exchangeOnce(t, context.Background(), u, put()))
	close(event)
	wantSettled(t, "first", <-one)
	wantSettled(t, "second", <-two)
	done()
}

// open is how many streams the first connection has.
func open(u *Upstream) int {
	c := u.h2.conns[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// A connection that the upstream retires just when it is used is replaced, once
// and only where the upstream did nothing.
func TestH2Retired(t *testing.T) {
	u, _, done := listenH2(t, nil,
		func(w *h2wire) {
			id := w.request()
			w.ok(id)
			w.request()
			w.fr.WriteGoAway(id, http2.ErrCodeNo, nil)
		},
		func(w *h2wire) {
			w.ok(w.request())
			w.rst(w.request(), http2.ErrCodeRefusedStream)
		})
	asked := 0
	r := put()
	r.MaySend = func() bool { asked++; return true }
	wantSettled(t, "first", exchangeOnce(t, context.Background(), u, put()))
	wantSettled(t, "on the fresh connection", exchangeOnce(t, context.Background(), u, r))
	if asked != 2 {
		t.Errorf("the leave was asked %d times, want once for each connection", asked)
	}
	if res := exchangeOnce(t, context.Background(), u, put()); res.outcome != notSent(ReasonUnprocessed) {
		t.Errorf("refused: %v, want not sent", res.outcome)
	}
	done()
}

// After a reset or a silence nobody knows whether a write was applied: it is not
// sent again.
func TestH2NoSecondSend(t *testing.T) {
	for name, end := range map[string]func(*h2wire, uint32){
		"closed":                       func(w *h2wire, _ uint32) { w.Close() },
		"reset":                        func(w *h2wire, id uint32) { w.rst(id, http2.ErrCodeCancel) },
		"GOAWAY above it, then closed": func(w *h2wire, id uint32) { w.fr.WriteGoAway(id, http2.ErrCodeNo, nil); w.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			u, _, done := listenH2(t, nil, func(w *h2wire) { w.ok(w.request()); end(w, w.request()) })
			wantSettled(t, "first", exchangeOnce(t, context.Background(), u, put()))
			if res := exchangeOnce(t, context.Background(), u, put()); res.outcome.Fate != Unsettled {
				t.Errorf("outcome %v, want unsettled", res.outcome)
			}
			done()
		})
	}
}

// An idle connection is closed with GOAWAY, and a lost stream leaves no other
// on a connection that has gone silent.
func TestH2Idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bye := make(chan http2.Frame, 1)
		u, done := pipedH2(t, func(w *h2wire) { w.ok(w.request()); bye <- w.frame() })
		wantSettled(t, "first", exchangeOnce(t, context.Background(), u, put()))
		start := time.Now()
		f, ok := (<-bye).(*http2.GoAwayFrame)
		if !ok || f.ErrCode != http2.ErrCodeNo {
			t.Errorf("the end of an idle connection is %v, want GOAWAY", f)
		}
		if took := time.Since(start); took != u.pool.ttl {
			t.Errorf("it was closed after %v, want %v", took, u.pool.ttl)
		}
		done()
	})
}

func TestH2SilentConnectionIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, done := pipedH2(t, func(w *h2wire) { w.request(); w.readOn() }, func(w *h2wire) { w.ok(w.request()) })
		if res := exchangeOnce(t, context.Background(), u, put()); res.outcome != unsettled(ReasonTimeout) {
			t.Errorf("outcome %v, want a timeout", res.outcome)
		}
		wantSettled(t, "the next", exchangeOnce(t, context.Background(), u, put()))
		done()
	})
}

// An upstream that speaks something else is told apart before anything is sent.
func TestH2OtherProtocol(t *testing.T) {
	u, _, done := listen(t, func(w *wire) { w.say("HTTP/1.1 400 Bad Request\r\n\r\n"); w.CloseWrite() })
	u = newH2(t, u.addr)
	res := exchangeOnce(t, context.Background(), u, put())
	done()
	if res.outcome != notSent(ReasonUnreachable) || !strings.Contains(res.err.Error(), "HTTP/2") {
		t.Errorf("outcome %v, error %v; want it not sent, with HTTP/2 named", res.outcome, res.err)
	}
}

// Streams that break off leave nothing behind: not on the connection, nor of it.
func TestH2ManyBrokenOff(t *testing.T) {
	const n = 1000 / (2 * h2MaxResets) // connections: each is left after so many resets of our own
	script := func(w *h2wire) {
		for i := range 2 * h2MaxResets {
			id := w.request()
			w.say(id, "103", false, "link", "</a>")
			if i%2 == 0 {
				w.rst(id, http2.ErrCodeInternal)
				continue
			}
			w.say(id, "200", false, "content-length", "3")
			w.data(id, "ok", true)
			w.waitReset(id)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		u, done := pipedH2(t, slices.Repeat([]func(*h2wire){script}, n)...)
		for range n {
			var c *h2conn
			for range 2 * h2MaxResets {
				if res := exchangeOnce(t, context.Background(), u, put()); res.outcome.Fate != Unsettled {
					t.Fatalf("outcome %v", res.outcome)
				}
				if c == nil {
					c = u.h2.get(h2need{company: held})
					c.untake(h2need{})
				}
			}
			synctest.Wait()
			c.mu.Lock()
			if c.open != 0 || len(c.streams) != 0 || c.window != h2FirstWindow-2*h2MaxResets*int64(len(hello)) {
				t.Errorf("%d open, %d streams, window %d", c.open, len(c.streams), c.window)
			}
			c.mu.Unlock()
		}
		done()
	})
}

// A connection that ends as soon as it is set up does not stay in the pool: it is
// known there before anybody reads of its end.
func TestH2KnownBeforeItEnds(t *testing.T) {
	u, _, done := listenH2(t, nil, func(w *h2wire) { w.Close() })
	held, read := make(chan struct{}), make(chan struct{})
	dial := u.dial
	u.dial = func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		u.h2.mu.Lock() // so that the pool cannot take it yet
		close(held)
		return &readTwice{Conn: c, second: read}, err
	}
	over := sent(t, u, put())
	<-held
	select {
	case <-read:
		t.Error("the connection is read from, and the pool does not know it")
	case <-time.After(100 * time.Millisecond):
	}
	u.h2.mu.Unlock()
	<-over
	done()
	u.h2.mu.Lock()
	defer u.h2.mu.Unlock()
	if n := len(u.h2.conns); n != 0 {
		t.Errorf("%d connections are left in the pool", n)
	}
}

// readTwice tells of the second read: the first is that of SETTINGS.
type readTwice struct {
	net.Conn
	reads  int
	second chan struct{}
}

func (c *readTwice) Read(p []byte) (int, error) {
	if c.reads++; c.reads == 2 {
		close(c.second)
	}
	return c.Conn.Read(p)
}
