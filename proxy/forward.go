package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/upstream"
)

// past is a deadline that ends what blocks at once.
var past = time.Unix(1, 0)

// oneWrite is a size, in bytes, that the kernel takes in one write on a
// connection on which nothing is under way: no raise finds it half sent.
const oneWrite = 4 << 10

// forward sends the request and relays its answer. A fenced one is in flight:
// whatever happens here, a panic included, leaves it settled for a reason or
// unsettled (rule 10).
func (x *exchange) forward(target string) {
	ctx := x.r.Context()
	if x.holds {
		// The client's leaving changes nothing from here on (rule 11); the
		// response timeout bounds what follows.
		ctx = x.h.sessions.until(x.ticket.Lost())
		if !x.rule.Observe && (x.body.streaming || x.ticket.Waited().Total > 0) && clientGone(x.r) {
			x.settle("") // it left while it waited: never sent
			x.refuse(gate.ErrLeft)
			return
		}
	}
	if x.body.reader == nil { // there is none, or it was not read ahead
		x.passBody()
	}

	route.Clean(x.r.Header)
	x.sent = time.Now()
	x.client = x.newClient()
	defer x.client.close()
	var cancel context.CancelFunc
	if x.away = x.unknown(); x.away {
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	x.trace.sends(x)
	x.prepare(target)
	answer, err := x.book.Upstream.Send(ctx, &x.request)
	if err != nil {
		x.undelivered(err)
		return
	}
	defer answer.Close()
	if x.away {
		x.cutAnswer(cancel)
	}
	if answer.Tunnel != nil {
		x.tunnel(answer)
		return
	}
	x.relay(answer)
}

// prepare makes what is sent: as the client sent it, with one token header.
func (x *exchange) prepare(target string) {
	r := &x.request
	*r = upstream.Request{
		Method: x.r.Method, Target: target, Host: x.r.Host, Header: x.r.Header,
		RemoteAddr: x.r.RemoteAddr, Scheme: x.scheme(),
		Body: x.body.reader, Length: x.body.length,
		Timeout: x.book.ResponseTimeout, Follow: x.holds, Settles: x.away,
		Informational: x.relayInformational, WebSocket: x.upgrade,
	}
	if x.rule != nil {
		r.Timeout = x.rule.ResponseTimeout
	}
	if x.body.reader != nil && x.body.length < 0 && len(x.r.Trailer) > 0 {
		r.Trailer = x.trailer
	}
	if x.holds {
		r.MaySend = x.ticket.MaySend
	}
	if x.body.streaming {
		rc := http.NewResponseController(x.w)
		// The answer may come while the client still uploads.
		_ = rc.EnableFullDuplex() // HTTP/2 has it anyway
		r.Interrupt = func() {
			// Behind the body's end it would only break net/http's watch of the
			// connection, and with it the exchange and the next request.
			if !x.body.ended.Load() {
				_ = rc.SetReadDeadline(past)
			}
		}
		if x.r.Header.Get("Expect") != "" && !stream(x.r) {
			// net/http tells the client to go on at the first read of the body. It
			// must not do so while a 1xx of the upstream's is written.
			_, _ = x.r.Body.Read(nil)
		}
	}
	if x.body.streaming || x.body.length > oneWrite {
		switch { // L1
		case x.holds:
			x.hurries()
			r.Cut = x.ticket.Overtaken()
		case x.away:
			r.Cut = x.book.hurried.Done()
		}
	}
}

// trailer is what the upstream gets of the client's trailers.
func (x *exchange) trailer() http.Header {
	kept := make(http.Header, len(x.r.Trailer))
	for name, values := range x.r.Trailer {
		if !x.book.Table.DropTrailer(name) {
			kept[name] = values
		}
	}
	return kept
}
