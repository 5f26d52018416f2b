package upstream

import (
	"bufio"
	"context"
	"errors"
	"net"
)

// Send sends r, once, and returns its answer as soon as its final head has
// come. The caller MUST close the answer; its outcome is known when it has been
// read to its end and its upload is over (see Answer.Outcome).
//
// ctx is the leave to go on, to the end of the answer; the client's leaving
// MUST NOT end the ctx of an admitted write (rule 11). Errors are an *Error,
// and after one nothing of r is in use any more. A panic in one of r's
// functions goes through after the connection is closed; the request is then
// unsettled.
func (u *Upstream) Send(ctx context.Context, r *Request) (*Answer, error) {
	if err := r.check(); err != nil {
		return nil, u.notSent(r, ReasonBadRequest, err)
	}
	if u.h2 != nil {
		return u.h2.send(ctx, r)
	}
	buf := u.heads.Get().(*[]byte)
	a, err := u.sendOnce(ctx, r, buf)
	if a != nil && a.x.done == uploadDone && cap(*buf) <= maxHeads { // nothing of it is written any more
		u.heads.Put(buf)
	}
	return a, err
}

// sendOnce is Send over HTTP/1.1. What it writes first is in buf, as long as
// the upload goes on.
func (u *Upstream) sendOnce(ctx context.Context, r *Request, buf *[]byte) (*Answer, error) {
	first, err := u.appendHead((*buf)[:0], r)
	if err != nil {
		return nil, u.notSent(r, ReasonBadRequest, err)
	}
	first, whole := join(first, r)
	*buf = first
	if nc := u.pool.get(); nc != nil {
		a, err := u.attempt(ctx, r, nc, first, whole)
		if !errors.Is(err, errUnused) {
			return a, err
		}
		// Nothing of r has been used up or sent, so this is still one attempt.
	}
	nc, err := u.dial(ctx)
	if err != nil {
		return nil, u.notSent(r, dialReason(ctx, err), err)
	}
	return u.attempt(ctx, r, nc, first, whole)
}

// attempt is the one attempt, on nc. Its error wraps errUnused when the
// connection was broken before it took a byte.
func (u *Upstream) attempt(ctx context.Context, r *Request, nc net.Conn, first []byte, whole bool) (*Answer, error) {
	x := &exchange{u: u, r: r, over: true}
	x.c.open(nc, u.readers.Get().(*bufio.Reader))
	kept := false
	defer func() {
		if !kept {
			x.close()
		}
	}()
	if reason, err := leave(ctx, r); err != nil {
		return nil, u.notSent(r, reason, err)
	}
	if ctx.Done() != nil {
		x.unwatch = watch(ctx, func() { x.lose(ReasonCanceled, context.Cause(ctx)) })
	}
	if !x.start(first, whole) {
		return nil, x.unused()
	}
	a, err := x.answer()
	if err != nil {
		x.close() // the outcome is not known before the upload is over
		return nil, &Error{Outcome: x.outcome(), Method: r.Method, Upstream: u.addr, Err: err}
	}
	kept = true
	return a, nil
}

// errUnused: the connection was broken before the first byte.
var errUnused = errors.New("the upstream broke the connection before it took a byte")

// unused is the error of a start that sent nothing, be it that the connection
// was of no use or that we gave it up meanwhile.
func (x *exchange) unused() *Error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost != "" {
		return x.u.notSent(x.r, x.lost, x.lostErr)
	}
	return x.u.notSent(x.r, ReasonReset, errUnused)
}

// errLeaveOver: the leave to send was over in the middle of a request.
var errLeaveOver = errors.New("the leave to send was over before the last byte")

// leave asks, immediately before the first byte, whether it may still be sent.
func leave(ctx context.Context, r *Request) (Reason, error) {
	select {
	case <-r.Cut:
		return ReasonCut, ErrCut
	default:
	}
	if ctx.Err() != nil {
		return ReasonCanceled, context.Cause(ctx)
	}
	if r.MaySend != nil && !r.MaySend() {
		return ReasonNoLeave, errors.New("the leave to send was over before the first byte")
	}
	return "", nil
}

func (u *Upstream) notSent(r *Request, reason Reason, err error) *Error {
	return &Error{Outcome: Outcome{NotSent, reason}, Method: r.Method, Upstream: u.addr, Err: err}
}
