package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// A client that opens requests and leaves at once (rapid reset) has servers end
// the connection: no write of another client may be on it, and the connection is
// left before they count too many.
func TestH2RapidReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, left := make(chan struct{}), make(chan struct{})
		u, done := pipedH2(t,
			func(w *h2wire) { id := w.request(); close(held); <-left; w.ok(id) },
			func(w *h2wire) {
				for range h2MaxResets {
					id := w.request()
					w.say(id, "200", false)
					w.waitReset(id)
				}
				if f, ok := w.frame().(*http2.GoAwayFrame); !ok {
					t.Errorf("after %d resets came %v, want GOAWAY", h2MaxResets, f)
				}
			},
			func(w *h2wire) { w.ok(w.request()) })
		write := sent(t, u, put())
		<-held
		get := put()
		get.Method, get.Body, get.Length, get.Follow = "GET", nil, 0, false
		for range h2MaxResets {
			ctx, leave := context.WithCancel(context.Background())
			a, err := u.Send(ctx, get)
			if err != nil {
				t.Fatal(err)
			}
			leave()
			if _, err := io.ReadAll(a); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			a.Close()
		}
		wantSettled(t, "a request after them", exchangeOnce(t, context.Background(), u, get))
		close(left)
		wantSettled(t, "another's write", <-write)
		done()
	})
}

// A client that breaks its upload off resets the stream of a followed write, too.
func TestH2UploadsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, over := make(chan struct{}), make(chan struct{})
		u, done := pipedH2(t,
			func(w *h2wire) { id := w.request(); close(held); <-over; w.ok(id) },
			func(w *h2wire) { w.waitReset(w.head().id); w.ok(w.request()) })
		write := sent(t, u, put())
		<-held
		r := put()
		r.Body, r.Length, r.Interrupt = io.MultiReader(strings.NewReader(hello), failing{}), -1, func() {}
		if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonClientUpload) {
			t.Errorf("outcome %v", res.outcome)
		}
		r.Body = io.MultiReader(strings.NewReader(hello))
		wantSettled(t, "the next upload, on the same connection", exchangeOnce(t, context.Background(), u, r))
		close(over)
		wantSettled(t, "another's write", <-write)
		done()
	})
}

// Trailers that cross with an early answer are a breach of the protocol to Go's
// server. Nobody else's request may be on that connection, then or later.
func TestH2TrailersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, over := make(chan struct{}), make(chan struct{})
		script := func(w *h2wire) {
			id := w.head().id
			w.drain(id) // up to the trailers
			w.ok(id)
			if f, ok := w.frame().(*http2.GoAwayFrame); !ok {
				t.Errorf("after a request with trailers came %v, want GOAWAY", f)
			}
		}
		u, done := pipedH2(t,
			func(w *h2wire) { id := w.request(); close(held); <-over; w.ok(id) },
			script, script)
		write := sent(t, u, put())
		<-held
		for range 2 {
			r := put()
			r.Body, r.Length, r.Interrupt = io.MultiReader(strings.NewReader(hello)), -1, func() {}
			r.Trailer = func() http.Header { return http.Header{"X-Sum": {"1"}} }
			wantSettled(t, "with trailers", exchangeOnce(t, context.Background(), u, r))
		}
		close(over)
		wantSettled(t, "another's write", <-write)
		done()
	})
}

// Connections for one company take no place of the others'.
func TestH2FullPool(t *testing.T) {
	p := &h2pool{}
	for range maxIdle {
		p.add(&h2conn{company: mixed, open: 1})
	}
	full, other := &h2conn{company: mixed, open: 1}, &h2conn{company: held, open: 1}
	p.add(full)
	p.add(other)
	if !full.retired || other.retired || len(p.conns) != maxIdle+1 {
		t.Errorf("one too many is retired: %v; the first of the others: %v", full.retired, other.retired)
	}
}
