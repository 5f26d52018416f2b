package upstream

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// long gives r a body that the pipe does not take with its head.
func long(r *Request) *Request {
	body := strings.Repeat(hello, 1000)
	r.Body, r.Length = bytes.NewReader([]byte(body)), int64(len(body))
	return r
}

// A write that is given up must not leave the proxy later, when its settle time
// may be over. Over HTTP/1.1 its connection is closed; over HTTP/2 the connection
// lives on for others, and with it the part of the write that the kernel had not
// taken: here all of its body.
func TestH2LostWriteNeverLeaves(t *testing.T) {
	for name, lose := range map[string]func(r *Request) Reason{
		"timeout": func(r *Request) Reason { r.Timeout = time.Second; return ReasonTimeout },
		"cut": func(r *Request) Reason {
			cut := make(chan struct{})
			r.Cut = cut
			time.AfterFunc(time.Second, func() { close(cut) })
			return ReasonCut
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost, late := make(chan struct{}), make(chan bool, 1)
				u, done := pipedH2(t, func(w *h2wire) {
					w.say(w.request(), "200", false) // an answer that goes on
					w.head()                         // of the write; and reads no more, for a while
					<-lost
					time.Sleep(2 * h2LostWrite)
					f, _ := w.frame().(*http2.DataFrame)
					late <- f != nil
				})
				other, err := u.Send(context.Background(), put())
				if err != nil {
					t.Fatal(err)
				}
				r := put()
				want := lose(long(r))
				if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(want) {
					t.Fatalf("outcome %v (%v)", res.outcome, res.err)
				}
				close(lost)
				time.Sleep(h2LostWrite / 2)
				c := u.h2.conns[0]
				c.mu.Lock()
				c.hurry(h2Goodbye) // who gives up later grants no more time
				c.mu.Unlock()
				if <-late {
					t.Error("the body left when the write had long been given up")
				}
				if _, err := io.ReadAll(other); err == nil {
					t.Error("the connection goes on, with half a frame on it")
				}
				other.Close()
				done()
			})
		})
	}
}

// A write that ends in time takes its deadline with it: the connection is as good
// as before. What is not followed sets none, or its client could end what others
// have there.
func TestH2LostWriteInTime(t *testing.T) {
	for name, row := range map[string]struct {
		follow bool
		taken  time.Duration
	}{"followed": {true, h2LostWrite / 2}, "not followed": {false, 2 * h2LostWrite}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goOn, heard := make(chan struct{}), make(chan struct{})
				u, done := pipedH2(t, func(w *h2wire) {
					w.request()
					w.head()
					<-goOn
					w.body(len(hello) * 1000)
					w.frame() // RST_STREAM
					close(heard)
					w.ok(w.request())
				})
				some := func() *Request { r := put(); r.Follow = row.follow; return r }
				other := sent(t, u, some()) // so that the connection stays
				synctest.Wait()
				ctx, cancel := context.WithCancel(context.Background())
				one := make(chan result)
				go func() { one <- exchangeOnce(t, ctx, u, long(some())) }()
				synctest.Wait()
				cancel()
				if res := <-one; res.outcome != unsettled(ReasonCanceled) {
					t.Errorf("outcome %v", res.outcome)
				}
				time.Sleep(row.taken)
				close(goOn)
				<-heard
				time.Sleep(2 * h2LostWrite)
				wantSettled(t, "the next, on the same connection", exchangeOnce(t, context.Background(), u, some()))
				<-other
				done()
			})
		})
	}
}

// Requests that chose a connection just before its write got stuck go on another
// one: nothing of them was sent.
func TestH2PassesOverStuckWrite(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"whole":  func(r *Request) {},
		"upload": func(r *Request) { r.Body, r.Interrupt = io.MultiReader(r.Body), func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over := make(chan struct{})
				u, done := pipedH2(t, func(w *h2wire) { w.head(); <-over })
				stuck := sent(t, u, long(put())) // in its body
				synctest.Wait()
				late := put()
				change(late)
				start := time.Now()
				need := needOf(late)
				need.company = held
				c := u.h2.get(need) // as h2pool.send does, at once
				_, unused, err := c.exchange(context.Background(), late, need)
				if took := time.Since(start); !unused || took > h2PassOver {
					t.Errorf("after %v: %v; it may go on another connection: %v", took, err, unused)
				}
				close(over)
				<-stuck
				done()
			})
		})
	}
}

// The same of one that came while nothing was being written, and was left over by
// the write that then began: it has all that goes into one.
func TestH2PassesOverBehindABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		u, done := pipedH2(t, func(w *h2wire) { w.ok(w.request()); w.head(); <-over })
		wantSettled(t, "the first", exchangeOnce(t, context.Background(), u, put()))
		c, fields := u.h2.conns[0], []hpack.HeaderField{{Name: ":method", Value: "PUT"}}
		var last *h2stream
		c.mu.Lock() // all of them come before the writer
		for range h2Batch/maxJoined + 2 {
			last = &h2stream{
				c: c, r: put(), ctx: context.Background(), event: make(chan struct{}, 1),
				flow: make(chan struct{}, 1), halt: make(chan struct{}), done: make(chan struct{}),
			}
			c.open++
			c.initial += maxJoined
			last.queue(h2item{head: true, fields: fields, data: make([]byte, maxJoined), end: true})
		}
		c.mu.Unlock()
		start := time.Now()
		if lost := last.awaitHead(); !lost || last.lostErr != errStuck || time.Since(start) > h2PassOver {
			t.Errorf("after %v: %v, want it passed over", time.Since(start), last.lostErr)
		}
		c.mu.Lock()
		c.fail(errStuck)
		c.mu.Unlock()
		close(over)
		done()
	})
}
