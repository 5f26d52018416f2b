package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/upstream"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// How far a body is read on after a refusal, so that the answer reaches a client
// that is still uploading: many read it only when their upload is over, and
// closing before that would break the connection under them.
const (
	lingerTime    = 500 * time.Millisecond // from one piece to the next
	lingerLongest = 5 * time.Second        // in all
	lingerBytes   = 16 << 20
	callTime      = 100 * time.Millisecond // for what is on its way of a gRPC call
)

// refuse answers a request that was not forwarded.
func (x *exchange) refuse(err error) {
	x.leaveBook(false) // however long the client uploads on
	x.cause = err
	if errors.Is(err, gate.ErrLeft) {
		x.cause, x.decision = nil, decisionLeft
		x.abort() // nobody is there to be answered
	}
	if errors.Is(err, errBadBody) { // as the HTTP parser would answer
		x.decision, x.status = decisionBadBody, http.StatusBadRequest
		x.w.Header().Set("Connection", "close")
		_ = http.NewResponseController(x.w).SetReadDeadline(past)
		x.w.WriteHeader(http.StatusBadRequest)
		return
	}
	if refusal := (*route.Refusal)(nil); x.rule == nil && errors.As(err, &refusal) && refusal.Rule >= 0 {
		x.rule = &x.book.Rules[refusal.Rule]
	}
	p := x.problem(err)
	x.say(wire.ResultRejected(p.Name()), p.Forwarded)
	x.answer(p)
}

// undelivered answers a request that Send could not bring to an answer.
func (x *exchange) undelivered(err error) {
	x.cause = err
	var hop *upstream.Error
	if !errors.As(err, &hop) {
		panic(err) // Send has no others
	}
	if !x.holds && x.r.Context().Err() != nil && !errors.Is(err, upstream.ErrCut) {
		x.cause, x.decision = nil, decisionLeft
		x.abort()
	}
	x.away = x.away && hop.Outcome.Fate == upstream.Unsettled
	if !x.holds {
		x.leaveBook(x.away) // before the client is answered, which may take long
	}
	p := x.problem(err)
	if x.fenced && !x.client.gone { // a 1xx that is still being written to it has the header
		if p.Name() == wire.StaleToken {
			x.say(wire.ResultRejected(p.Name()), p.Forwarded)
		} else {
			x.say(x.result(), p.Forwarded)
		}
	}
	if hop.Outcome.Fate == upstream.Unsettled {
		x.settle(string(hop.Outcome.Reason))
	} else {
		x.settle("")
	}
	x.client.undeadline() // that of a 1xx
	x.answer(p)
}

// abort ends the connection with what was answered so far. net/http would
// first read on in a body that may never come.
func (x *exchange) abort() {
	if x.bodyUnread() {
		_ = http.NewResponseController(x.w).SetReadDeadline(past)
	}
	if c, ok := socketOf(x.r).(*net.TCPConn); ok && !x.r.ProtoAtLeast(1, 1) {
		// A plain end would make the answer whole, as would TLS's close_notify:
		// only a reset does not.
		_ = c.SetLinger(0)
		_ = c.Close()
	}
	panic(http.ErrAbortHandler)
}

// answer writes the problem, also to a client that is still uploading.
func (x *exchange) answer(p *wire.Problem) {
	x.decision = string(p.Name())
	if x.client.gone {
		x.abort() // it did not even take what came before
	}
	x.status = p.Status
	unread, grpc := x.bodyUnread(), wire.IsGRPC(x.r.Header)
	rc := http.NewResponseController(x.w)
	if unread && !stream(x.r) {
		// Without both, net/http reads on before it answers, and a stalled
		// client never gets its 409.
		x.w.Header().Set("Connection", "close")
		_ = rc.SetReadDeadline(past)
	}
	if x.upgrade { // as in relayHead
		x.w.Header().Set("Connection", "close")
	}
	if grpc {
		x.status = http.StatusOK
		p.WriteGRPC(x.w)
	} else {
		p.Write(x.w)
	}
	switch {
	case unread && grpc && stream(x.r):
		x.awaitCall()
	case unread:
		x.linger()
	}
}

// linger sends what was answered, and reads on in the body: for as long as it
// goes on coming, within bounds.
func (x *exchange) linger() {
	if stream(x.r) {
		x.lingerStream()
		return
	}
	rc := http.NewResponseController(x.w)
	_ = rc.Flush()
	end := time.Now().Add(lingerLongest)
	err := discard(x.r.Body, rc.SetReadDeadline, end)
	// A chunked body whose reading was interrupted fails for ever. The rest of
	// it is read from the connection, which serves no other request.
	if c, ok := x.r.Context().Value(connKey{}).(net.Conn); ok && err != nil && !errors.Is(err, io.EOF) {
		_ = discard(c, c.SetReadDeadline, end)
	}
}

// discard reads r until it ends, or pauses for lingerTime, or the end has come.
func discard(r io.Reader, deadline func(time.Time) error, end time.Time) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for n := 0; n < lingerBytes && time.Now().Before(end); {
		if err := deadline(time.Now().Add(lingerTime)); err != nil {
			return err
		}
		more, err := r.Read(*buf)
		if err != nil {
			return err
		}
		n += more
	}
	return nil
}

// bodyUnread reports whether the client may still be uploading.
func (x *exchange) bodyUnread() bool {
	if x.r.Body == nil || x.r.Body == http.NoBody || x.r.ContentLength == 0 {
		return false
	}
	return x.body.reader == nil || x.body.streaming
}
