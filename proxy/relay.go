package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/upstream"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// relay passes the answer on to the client, and settles the write as soon as
// the answer is whole: before the last of it is written, since a client that
// reads slowly must not hold its key (L2).
func (x *exchange) relay(a *upstream.Answer) {
	out := &x.client
	x.relayHead(a)
	if !out.gone {
		x.w.WriteHeader(a.Status)
	}
	buf := buffers.Get().(*[]byte)
	defer func() { buffers.Put(buf) }()

	if (a.Length < 0 || a.Waits()) && a.Status != http.StatusNoContent {
		out.flush() // the first of its body may come late
	}
	for {
		n, err := a.Read(*buf)
		if err == io.EOF {
			x.over(a)
			out.undeadline()
			out.write((*buf)[:n])
			x.relayTrailer(a)
			break
		}
		if n > 0 {
			out.watch()
			out.write((*buf)[:n])
			out.flush()
			if out.stuck != nil { // it is still being written from
				fresh := make([]byte, len(*buf))
				buf = &fresh
			}
		}
		if err != nil {
			x.breakOff(a.Outcome(), err)
		}
		if out.gone && !x.holds {
			return // nobody wants the rest
		}
	}
	if x.away && (!x.body.streaming || x.body.ended.Load()) {
		// An upstream can answer before the upload knows that it is over, also that
		// of a request that is all here. Taken for lost, the write would hold up what
		// a reload fences.
		select {
		case <-a.UploadDone():
			x.over(a)
		case <-time.After(grace):
		}
	}
	switch {
	case out.gone:
		x.abort()
	case x.body.streaming && (a.Refused || stream(x.r) && !isClosed(a.UploadDone())):
		a.Close() // nobody else reads the body, or interrupts it, from here on
		x.linger()
	}
}

// over settles the write whose answer has come in full.
func (x *exchange) over(a *upstream.Answer) {
	if !x.holds {
		if x.away && isClosed(a.UploadDone()) && a.Outcome().Fate == upstream.Settled {
			x.away = false
			x.leaveBook(false) // however long the client reads
		}
		return
	}
	// After an early answer the client may still be uploading. It is a part
	// of the write; a raise cuts it.
	<-a.UploadDone()
	switch o := a.Outcome(); {
	case o.Fate == upstream.Settled:
		x.settle("")
	case o.Reason == upstream.ReasonStatus(a.Status), o.Reason == upstream.ReasonEarlyEnd:
		a.Close()                  // what is still on its way must not wait for the client
		x.settle(string(o.Reason)) // the answer itself tells it
	default:
		// The upload was cut or broke off behind an early 2xx: what the answer
		// says is not true any more.
		cause := upstream.ErrCut
		if o.Reason != upstream.ReasonCut {
			cause = errEarly
		}
		x.breakOff(o, cause)
	}
}

// errEarly ends an answer whose request the upstream did not take whole.
var errEarly = errors.New("the upload broke off behind an answer that came before its end")

// breakOff ends an answer that cannot be believed: the client must see a
// broken one, never a short one that looks whole.
func (x *exchange) breakOff(o upstream.Outcome, cause error) {
	x.settle(string(o.Reason))
	x.cause = cause
	x.abort()
}

// relayHead prepares the answer's head, with what the fence has to say.
func (x *exchange) relayHead(a *upstream.Answer) {
	x.status, x.decision = a.Status, decisionPassed
	if x.fenced {
		x.decision = x.admittedAs()
	}
	if x.client.gone {
		return
	}
	if isClosed(a.UploadDone()) {
		x.dropBody()
	}
	h := x.w.Header()
	for name, values := range a.Header {
		if !strings.HasPrefix(name, wire.HeaderPrefix) {
			h[name] = values
		}
	}
	for name := range a.Trailer {
		if !strings.HasPrefix(name, wire.HeaderPrefix) {
			h.Add("Trailer", name)
		}
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // net/http would guess one
	}
	if a.Refused || x.body.streaming && !x.body.ended.Load() {
		// The upload may be stopped before its end, and then what is left of
		// the body would be read as the next request. On HTTP/2 the stream is
		// reset, and this would be a GOAWAY to all of them.
		if !stream(x.r) {
			h.Set("Connection", "close")
		}
	}
	if x.upgrade {
		// What a client sent in the hope of a 101 is no request.
		h.Set("Connection", "close")
	}
	if x.fenced {
		x.say(x.result(), wire.ForwardedYes)
	}
}

// relayInformational passes on a 1xx answer.
func (x *exchange) relayInformational(status int, header http.Header) {
	if status == http.StatusContinue || !x.r.ProtoAtLeast(1, 1) || x.client.gone {
		return // net/http in front deals with the client's Expect
	}
	h := x.w.Header()
	for name, values := range header {
		if !strings.HasPrefix(name, wire.HeaderPrefix) {
			h[name] = values
		}
	}
	// net/http drops it, and makes a copy of h therefor. On HTTP/2 it would
	// otherwise still read h after a reset of the stream has let us go on.
	h["Content-Length"] = nil
	x.client.informational(status)
	if x.client.stuck == nil {
		clear(h)
	}
}

// relayTrailer passes on the answer's trailers, announced or not.
func (x *exchange) relayTrailer(a *upstream.Answer) {
	if x.client.gone {
		return
	}
	h := x.w.Header()
	for name, values := range a.Trailer {
		if values != nil && !strings.HasPrefix(name, wire.HeaderPrefix) {
			h[http.TrailerPrefix+name] = values
		}
	}
}
