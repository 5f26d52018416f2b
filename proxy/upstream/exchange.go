package upstream

import (
	"net/http"
	"sync"
	"time"
)

// firstWrite is how long the first write may take on the caller's goroutine
// where the connection cannot be written to without waiting. Nearly always the
// kernel takes a head and a small body at once; where it does not, a writer
// goroutine goes on, so that an early answer is read and a cut is noticed while
// the upstream does not read.
const firstWrite = 10 * time.Millisecond

// exchange is one request on one connection, from the first byte to the end of
// the answer. The caller's goroutine reads; the upload writes, on the caller's
// goroutine while it is short and on its own after that.
type exchange struct {
	u *Upstream
	r *Request
	c conn
	a Answer // the final one

	unwatch func() bool    // stops the watch of the context; nil for none
	done    chan struct{}  // closed when nothing of the request is written any more; made by start
	writers sync.WaitGroup // the upload, the watch of Cut, and a call of Interrupt

	// mu orders the deadlines and the closing of the connection: without it the
	// upload, at its end, could grant time to a read that is to stop.
	mu      sync.Mutex
	over    bool // nothing of the request is written (any more)
	stopped bool // no more of the request may be written
	sent    bool // wholly sent
	headIn  bool // the final answer's head has come
	whole   bool // the final answer has come in full
	closed  bool
	status  int
	until   time.Time // the deadline of what is read, as the upload's end set it
	timed   bool      // a write has, or had, a deadline

	keepAlive bool   // the answer's head lets the connection be used again
	failed    Reason // why the upload failed although the connection stood
	lost      Reason // why the connection was given up; the first reason counts
	lostErr   error
}

// armWrite gives the next write its time, unless nothing more may be written.
func (x *exchange) armWrite(first bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopped {
		return false
	}
	switch {
	case first && x.c.kernel: // it never waits
		return true
	case first:
		x.c.SetWriteDeadline(time.Now().Add(firstWrite))
	default:
		x.c.SetWriteDeadline(x.deadline())
	}
	x.timed = true
	return true
}

// deadline is when the upstream has to have done the next thing; mu is held.
func (x *exchange) deadline() time.Time {
	if x.r.Timeout == 0 || x.headIn && !x.r.Follow {
		return time.Time{}
	}
	return time.Now().Add(x.r.Timeout)
}

// uploaded ends the upload: wholly sent, or not, with the reason where it is
// not told elsewhere. From here the time of the answer counts.
func (x *exchange) uploaded(sent bool, reason Reason) {
	x.mu.Lock()
	defer x.mu.Unlock()
	// A last byte that was taken just when the connection was given up is not
	// counted: the loss has been told already.
	x.sent = sent && x.lost == ""
	x.failed = reason
	x.over = true
	if !x.closed {
		x.until = x.deadline()
		x.c.SetReadDeadline(x.until)
	}
}

// headCame takes note of the final answer's head. A refusal that comes before
// the request was wholly sent stops the upload, and is then read to its end: it
// must reach the client even if the upstream resets the connection behind it.
// short reports that the upload has ended without the request being wholly sent.
func (x *exchange) headCame(status int) (short bool) {
	x.mu.Lock()
	x.headIn, x.status = true, status
	refused := !x.over && status >= 400
	interrupt := refused && x.stopLocked()
	switch {
	case refused:
		x.c.SetWriteDeadline(time.Unix(1, 0)) // ends a write that blocks
	case !x.r.Follow:
		x.c.SetDeadline(time.Time{})
	}
	short = x.over && !x.sent
	x.mu.Unlock()
	if interrupt {
		x.interrupt()
	}
	if refused {
		<-x.done
		short = !x.sent // the last byte may have been on its way
	}
	return short
}

// stopLocked stops the upload, and reports whether it has to be interrupted,
// which must not happen under mu: Interrupt is the caller's code.
func (x *exchange) stopLocked() (interrupt bool) {
	if x.stopped || x.over {
		return false
	}
	x.stopped = true
	x.writers.Add(1) // see interrupt
	return true
}

// lose gives the connection up: reads and writes end at once. The first reason
// is kept.
func (x *exchange) lose(reason Reason, err error) {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return
	}
	interrupt := x.loseLocked(reason, err)
	x.mu.Unlock()
	if interrupt {
		x.interrupt()
	}
}

// loseLocked reports like stopLocked.
func (x *exchange) loseLocked(reason Reason, err error) (interrupt bool) {
	if x.lost == "" {
		x.lost, x.lostErr = reason, err
	}
	x.c.Close()
	return x.stopLocked()
}

// cut gives the connection up unless the request was wholly sent or refused.
func (x *exchange) cut() {
	x.mu.Lock()
	interrupt := !x.over && !x.stopped && x.loseLocked(ReasonCut, ErrCut)
	x.mu.Unlock()
	if interrupt {
		x.interrupt()
	}
}

// clientFailed gives the connection up because Body ended early, unless Body
// only failed because it was interrupted.
func (x *exchange) clientFailed(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.stopped {
		x.stopped = true // there is nothing to interrupt
		x.loseLocked(ReasonClientUpload, err)
	}
}

// stop ends an upload that the upstream does not take any more, while its
// answer is still waited for.
func (x *exchange) stop() {
	x.mu.Lock()
	interrupt := x.stopLocked()
	x.mu.Unlock()
	if interrupt {
		x.interrupt()
	}
}

// interrupt is called once, by whoever stopped the upload, who has counted it
// as a writer under the same lock: a call that came after close would break off
// whatever the client's connection is used for then.
func (x *exchange) interrupt() {
	defer x.writers.Done()
	if x.r.Interrupt != nil {
		x.r.Interrupt()
	}
}

// close ends everything and waits for it. Only the caller's goroutine calls it.
func (x *exchange) close() {
	if x.unwatch != nil {
		x.unwatch()
	}
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return
	}
	interrupt, reuse := false, x.reusable()
	switch {
	case !x.whole || !x.over:
		interrupt = x.loseLocked(ReasonAbandoned, errAbandoned)
	case !reuse && x.sent && x.lost == "" && x.arrived():
		hangUp(x.c.Conn)
	case !reuse && x.sent && x.lost == "":
		go hangUpSoon(x.c.Conn) // nobody waits for an upstream that has answered
	case !reuse:
		x.c.Close()
	}
	x.closed = true // nobody closes the connection or sets a deadline after this
	x.mu.Unlock()
	if interrupt {
		x.interrupt()
	}
	x.writers.Wait()
	if reuse {
		if x.timed {
			x.until = time.Time{}
		}
		x.u.pool.put(x.c.Conn, x.until)
	}
	x.c.br.Reset(nil)
	x.u.readers.Put(x.c.br)
	x.c.br = nil
}

// reusable reports whether the connection may serve another request: both
// messages have ended where both sides know it, and nothing came behind the
// answer. mu is held.
func (x *exchange) reusable() bool {
	// An upstream that answers HEAD with a body would have it read as the answer
	// to the next request.
	return x.keepAlive && x.r.Method != http.MethodHead && x.u.pool.ttl > 0 && x.whole && x.sent && !x.stopped && x.lost == "" &&
		x.c.readErr == nil && x.c.br.Buffered() == 0 && x.arrived()
}

// arrived reports whether nothing of the request, which was answered, can come to
// the upstream behind its settle time: the answer says that it is over, or all of
// it is there. mu is held.
func (x *exchange) arrived() bool { return !x.u.unproven(x.status) || untaken(x.c.Conn) == 0 }

// outcome is what is known by now.
func (x *exchange) outcome() Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.u.judge(facts{
		left:   x.c.written.Load() > 0 || !x.over, // a write that runs counts as having left
		sent:   x.sent,
		whole:  x.whole,
		status: x.status,
		lost:   x.lost,
		upload: x.failed,
	})
}

// broken takes note of an error of reading the answer, and returns the cause:
// a closed connection says less than why it was closed.
func (x *exchange) broken(err error, started bool) error {
	x.lose(classify(err, started), err)
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lostErr
}
