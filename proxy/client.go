package proxy

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// grace is how far a client may fall behind the pace once a raise has
// overtaken its write; the pace is 10 MB/s.
const (
	grace       = 250 * time.Millisecond
	timePerByte = 100 * time.Nanosecond
)

// client is the reader of an answer. Once a raise has overtaken its write it
// may hold up the reading of the answer for the grace and is detached then: it
// gets what its connection still takes and a broken answer after that, while
// the proxy reads on (L2). The same once response_timeout is over, so that no
// reader keeps a write in flight for ever, and with it a stop.
type client struct {
	x     *exchange
	rc    http.ResponseController
	left  time.Duration // of the grace
	gone  bool          // it left, or was detached
	done  chan struct{} // closed to end the watch; nil while there is none
	ended chan struct{} // closed when it has ended
	limit time.Time     // see until; zero before
	stuck chan error    // gets the end of a write that goes on without us; nil for none
}

func (x *exchange) newClient() client {
	return client{x: x, rc: *http.NewResponseController(x.w), left: grace}
}

// informational writes a 1xx head, which goes out at once.
func (c *client) informational(status int) {
	if c.gone {
		return
	}
	c.watch()
	c.timely(func() error { c.x.w.WriteHeader(status); return nil })
}

// write writes p unless the client is gone.
func (c *client) write(p []byte) {
	if c.gone || len(p) == 0 {
		return
	}
	if c.done == nil && !c.sticks() { // the write is over, or nothing holds it
		_, err := c.x.w.Write(p)
		c.gone = err != nil
	} else {
		c.timely(func() error { _, err := c.x.w.Write(p); return err })
	}
	c.left = min(grace, c.left+time.Duration(len(p))*timePerByte)
}

// flush sends what was written. It is called while more is to come.
func (c *client) flush() {
	if c.gone {
		return
	}
	c.watch()
	c.timely(c.rc.Flush)
}

// timely runs f, which may block on the client, under what is left of the
// grace if the write is overtaken.
func (c *client) timely(f func() error) {
	if c.sticks() && c.x.holds && !c.x.settled {
		c.apart(f)
		return
	}
	start := time.Now()
	overtaken := c.done != nil && c.deadline(start)
	defer c.patiently()()
	if f() != nil {
		c.gone = true
	}
	if overtaken {
		c.left -= time.Since(start)
	}
}

// deadline bounds the write that begins now. It reports whether the write is
// overtaken, which is asked last: the watch may have set the deadline before.
func (c *client) deadline(start time.Time) (overtaken bool) {
	_ = c.rc.SetWriteDeadline(c.until(start))
	if overtaken = isClosed(c.x.ticket.Overtaken()); overtaken {
		_ = c.rc.SetWriteDeadline(start.Add(c.left))
	}
	return overtaken
}

// until is how long a write that begins now may take where no raise waits. The
// response_timeout counts from the end of the upload: as long as that goes on, it
// is for each write anew.
func (c *client) until(now time.Time) time.Time {
	end := now.Add(c.x.rule.ResponseTimeout)
	switch {
	case c.x.body.streaming && !c.x.body.ended.Load():
		return end
	case c.limit.IsZero():
		c.limit = end
	}
	return c.limit
}

// patiently resets a stream whose client has not taken the piece of its answer
// that is being written when its time is over, unless the returned function is
// called before. On the connection all is well meanwhile, so that nothing else
// ends a stream that gets no window; over HTTP/1 the kernel does (see package
// listen).
func (c *client) patiently() (stop func()) {
	if !stream(c.x.r) || c.x.h.ReadTimeout <= 0 {
		return func() {}
	}
	over := make(chan struct{})
	timer := time.AfterFunc(c.x.h.ReadTimeout, func() {
		defer close(over)
		_ = c.rc.SetWriteDeadline(past)
	})
	return func() {
		if !timer.Stop() {
			<-over // see book.whenHurried
		}
	}
}

// bidFarewell bounds what net/http still sends of an answer behind the handler's
// end, which is all of a short one.
func (x *exchange) bidFarewell() {
	if stream(x.r) && x.h.ReadTimeout > 0 {
		_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(x.h.ReadTimeout))
	}
}

// sticks reports whether a write may not come back at its deadline. On HTTP/2 it
// resets the stream, but only when the frame that is being written is on its way.
// Over TLS the server closes the connection then, and crypto/tls gives itself
// five more seconds to say so, to a client that takes nothing.
func (c *client) sticks() bool { return stream(c.x.r) || c.x.r.TLS != nil }

// apart is timely for a write that may stick. It runs on a goroutine of its own,
// and is left to itself when the grace is over.
func (c *client) apart(f func() error) {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	raised := c.x.ticket.Overtaken()
	c.x.hurries()
	limit := time.NewTimer(time.Until(c.until(time.Now())))
	defer limit.Stop()
	var late <-chan time.Time
	var since time.Time
	for {
		select {
		case err := <-ended:
			c.gone = c.gone || err != nil
			if raised == nil {
				c.left -= time.Since(since)
			}
			return
		case <-raised:
			raised, since = nil, time.Now()
			late = time.After(c.left)
		case <-late:
			c.leaveBehind(ended)
			return
		case <-limit.C:
			c.leaveBehind(ended)
			return
		}
	}
}

// leaveBehind detaches the client in a write that goes on until it ends.
func (c *client) leaveBehind(ended chan error) {
	c.gone, c.stuck = true, ended
	_ = c.rc.SetWriteDeadline(past)
}

// watch begins to look for a raise while the client is written to.
func (c *client) watch() {
	if c.done != nil || !c.x.holds || c.sticks() {
		return
	}
	c.done, c.ended = make(chan struct{}), make(chan struct{})
	c.x.hurries()
	go func() {
		defer close(c.ended)
		select {
		case <-c.x.ticket.Overtaken():
			// For the write that blocks now; timely sees to the later ones.
			_ = c.rc.SetWriteDeadline(time.Now().Add(grace))
		case <-c.done:
		}
	}()
}

// undeadline lets the client take its time: the write is over.
func (c *client) undeadline() {
	if c.done == nil {
		return
	}
	c.close()
	_ = c.rc.SetWriteDeadline(time.Time{})
}

// close ends the watch. A stuck write must not outlive the handler; the
// connection that does not take it is closed after a time.
func (c *client) close() {
	if c.stuck != nil {
		<-c.stuck
		c.stuck = nil
	}
	if c.done == nil {
		return
	}
	close(c.done)
	<-c.ended
	c.done = nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// pollClient is how often a waiting write's client is looked for.
const pollClient = 250 * time.Millisecond

// watchClient returns a context that ends when the client leaves. net/http
// sees to it by itself on HTTP/2, and on HTTP/1 once it has read the whole
// body, but only where it is let (see clientConn), and as long as the client
// sends nothing behind it.
func (x *exchange) watchClient(ctx context.Context) (_ context.Context, stop func()) {
	if stream(x.r) {
		return ctx, func() {}
	}
	w := &watch{r: x.r}
	ctx, w.cancel = context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(pollClient, w.look)
	return ctx, w.stop
}

// watch looks for a client from time to time, while its write waits.
type watch struct {
	r      *http.Request
	cancel context.CancelFunc

	mu    sync.Mutex  // guards timer; held while it looks, so that none looks after stop
	timer *time.Timer // nil when stopped
}

func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.timer == nil:
	case clientGone(w.r):
		w.cancel()
	default:
		w.timer.Reset(pollClient)
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.timer = nil
	w.cancel()
}
