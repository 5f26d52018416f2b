package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// closable tells when it was closed.
type closable struct {
	net.Conn
	closed chan time.Time // holds one
}

func (c closable) Close() error {
	select {
	case c.closed <- time.Now():
	default:
	}
	return c.Conn.Close()
}

// over puts a connection of u's into wrap.
func over(u *Upstream, wrap func(net.Conn) net.Conn) {
	dial := u.dial
	u.dial = func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return wrap(c), nil
	}
}

// The upstream does not read for a while, and a write is given up in the middle.
// The part that runs fails, and nothing can be written on the connection any more,
// RST_STREAM neither: only the connection's end tells the upstream that the write
// breaks off. It may apply then what it has of it, and must not hear of it when
// settle has long begun. Where nobody else is on the connection, not later than
// that either.
func TestH2LostIsToldByTheEnd(t *testing.T) {
	for name, row := range map[string]struct {
		others bool
		change func(*Request)
		late   time.Duration
	}{
		"alone":                    {false, func(*Request) {}, 0},
		"an upload, alone":         {false, func(r *Request) { r.Body, r.Interrupt = io.MultiReader(r.Body), func() {} }, 0},
		"beside another":           {true, func(*Request) {}, h2LostWrite},
		"an upload beside another": {true, func(r *Request) { r.Body, r.Length = bytes.NewReader(make([]byte, 2*maxJoined)), 2*maxJoined }, h2LostWrite},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goOn, closed := make(chan struct{}), make(chan time.Time, 1)
				u, done := pipedH2(t, func(w *h2wire) {
					if row.others {
						w.say(w.request(), "200", false) // an answer that goes on
					}
					w.head() // of the write
					<-goOn
				})
				over(u, func(c net.Conn) net.Conn { return closable{c, closed} })
				if row.others {
					other, err := u.Send(context.Background(), put())
					if err != nil {
						t.Fatal(err)
					}
					defer other.Close()
				}
				r, cut := long(put()), make(chan struct{})
				row.change(r)
				r.Cut = cut
				time.AfterFunc(time.Second, func() { close(cut) })
				if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonCut) {
					t.Fatalf("outcome %v (%v)", res.outcome, res.err)
				}
				lost := time.Now()
				if late := (<-closed).Sub(lost); late > row.late {
					t.Errorf("the upstream heard of it %v after it was called lost, want %v", late, row.late)
				}
				close(goOn)
				done()
			})
		})
	}
}

// The same of a whole request that is given up: nothing could be written any more
// by then, as what of others failed before, or it is the RST_STREAM that fails.
func TestH2LostBehindAFailedWrite(t *testing.T) {
	for name, before := range map[string]bool{"before": true, "its own": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken, closed := new(atomic.Bool), make(chan time.Time, 1)
				u, done := pipedH2(t, func(w *h2wire) {
					w.request()
					w.request()
					io.Copy(io.Discard, w.Conn)
				})
				over(u, func(c net.Conn) net.Conn { return closable{breakable{c, broken}, closed} })
				other := sent(t, u, put())
				synctest.Wait()
				r := put()
				r.Timeout = h2Goodbye / 2
				write := sent(t, u, r)
				synctest.Wait()
				broken.Store(true)
				if before {
					writeSome(u.h2.conns[0])
				}
				if res := <-write; res.outcome != unsettled(ReasonTimeout) {
					t.Errorf("outcome %v (%v)", res.outcome, res.err)
				}
				lost := time.Now()
				if late := (<-closed).Sub(lost); late > 0 {
					t.Errorf("the upstream heard of it %v after it was called lost", late)
				}
				<-other
				done()
			})
		})
	}
}

// The same of a whole request behind which the bytes of another get stuck: its
// RST_STREAM waits for them, and they may be for the upstream to read for long.
func TestH2LostBehindAStuckWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn, closed := make(chan struct{}), make(chan time.Time, 1)
		u, done := pipedH2(t, func(w *h2wire) {
			w.request()
			w.head() // of the other; and reads no more
			<-goOn
		})
		over(u, func(c net.Conn) net.Conn { return closable{c, closed} })
		r := put()
		r.Timeout = time.Second
		write := sent(t, u, r)
		synctest.Wait()
		other := sent(t, u, long(put()))
		if res := <-write; res.outcome != unsettled(ReasonTimeout) {
			t.Errorf("outcome %v (%v)", res.outcome, res.err)
		}
		lost := time.Now()
		if late := (<-closed).Sub(lost); late > h2LostWrite {
			t.Errorf("the upstream heard of it %v after it was called lost", late)
		}
		if res := <-other; res.outcome != unsettled(ReasonReset) {
			t.Errorf("the other: %v (%v)", res.outcome, res.err)
		}
		close(goOn)
		done()
	})
}

// One whose RST_STREAM is behind much of others', which the upstream takes, though
// slowly, ends nothing.
func TestH2LostIsToldInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, pause = 60 << 10, h2PassOver / 28 // a batch is of 25 frames
		told := make(chan time.Time, 1)
		u, done := pipedH2(t, func(w *h2wire) {
			w.fr.WriteWindowUpdate(0, 1<<20)
			write := w.request()
			var whole []uint32
			for heard := false; len(whole) < 16 || !heard; {
				time.Sleep(pause)
				switch f := w.frame().(type) {
				case *http2.DataFrame:
					if f.StreamEnded() {
						whole = append(whole, f.StreamID)
					}
				case *http2.RSTStreamFrame:
					if heard = f.StreamID == write; heard {
						told <- time.Now()
					}
				case nil:
					return
				}
			}
			for _, id := range whole {
				w.ok(id)
			}
		})
		r := put()
		r.Timeout = time.Second
		write := sent(t, u, r)
		synctest.Wait()
		time.Sleep(r.Timeout - time.Nanosecond)
		var others []<-chan result
		for range 16 {
			other := put()
			other.Body, other.Length = bytes.NewReader(make([]byte, size)), size
			others = append(others, sent(t, u, other))
		}
		if res := <-write; res.outcome != unsettled(ReasonTimeout) {
			t.Errorf("outcome %v (%v)", res.outcome, res.err)
		}
		lost := time.Now()
		for _, other := range others {
			wantSettled(t, "another", <-other)
		}
		if late := (<-told).Sub(lost); late < h2LostWrite {
			t.Errorf("RST_STREAM came after %v: that shows nothing", late)
		}
		done()
	})
}

// Where nobody's settle time begins, what others are to read behind a write that
// failed is read.
func TestH2AnsweredBehindAFailedWrite(t *testing.T) {
	const later = h2Goodbye / 2
	for name, row := range map[string]struct {
		change func(*Request)
		play   func(w *h2wire)
		want   Outcome
	}{
		"a refusal": {
			func(r *Request) { long(r) },
			func(w *h2wire) { w.say(w.head().id, "413", true) },
			settled,
		},
		"not followed": {
			func(r *Request) { r.Follow, r.Timeout = false, later/2 },
			func(w *h2wire) { w.request() },
			unsettled(ReasonTimeout),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken := new(atomic.Bool)
				u, done := pipedH2(t, func(w *h2wire) {
					id := w.request()
					row.play(w)
					time.Sleep(later)
					w.ok(id)
				})
				over(u, func(c net.Conn) net.Conn { return breakable{c, broken} })
				r, other := put(), put()
				row.change(r)
				other.Follow = r.Follow // so that they share a connection
				answered := sent(t, u, other)
				synctest.Wait()
				one := sent(t, u, r)
				synctest.Wait()
				broken.Store(true)
				if !r.Follow { // else it is stuck in its own write
					writeSome(u.h2.conns[0])
				}
				if res := <-one; res.outcome != row.want {
					t.Errorf("outcome %v (%v), want %v", res.outcome, res.err, row.want)
				}
				wantSettled(t, "the other", <-answered)
				done()
			})
		})
	}
}

// writeSome has c write something that is nobody's.
func writeSome(c *h2conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.control(func(w *http2.Framer) { w.WritePing(false, [8]byte{}) })
}

// breakable is a connection that takes nothing once it is broken.
type breakable struct {
	net.Conn
	broken *atomic.Bool
}

func (c breakable) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}
