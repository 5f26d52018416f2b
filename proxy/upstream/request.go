package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Request is one request to be sent. Send reads it until its upload is over
// and does not change it.
type Request struct {
	// Method is written as it is.
	Method string
	// Target is the origin form (path and query), written byte for byte.
	Target string
	// Host is the client's Host, forwarded with Options.PreserveHost and
	// always told in X-Forwarded-Host.
	Host string
	// Header is what the client sent. Hop-by-hop fields, those that Connection
	// names, the framing, Expect (the client is dealt with by the server in
	// front), and Forwarded and X-Forwarded-* of clients that are no
	// Options.TrustedProxies are not passed on; nothing is added but the
	// proxy's own X-Forwarded-*.
	Header http.Header
	// RemoteAddr (host:port; anything else is no address) and Scheme of the
	// client, for X-Forwarded-For and X-Forwarded-Proto.
	RemoteAddr, Scheme string

	// Body is what is sent after the head; nil for none. A *bytes.Reader leaves
	// together with the head where it is small. Any other is read on a
	// goroutine of its own while the answer is read (the server in front has to
	// allow that, see http.ResponseController.EnableFullDuplex), and needs
	// Interrupt.
	Body io.Reader
	// Length is the body's length in bytes, or -1 where it is not known: then
	// it is sent chunked. A Body that ends short of Length breaks the
	// connection; one that goes on is not read past it.
	Length int64
	// Interrupt MUST make a Read of Body that blocks, and every later one,
	// return soon (with net/http: a read deadline in the past). It is called
	// once, from any goroutine, when the upload is stopped before Body's end
	// for any reason but Body's own failure; after it the client's connection
	// is good for one answer at most, and that needs "Connection: close". It is
	// not called where the outcome is NotSent before anything of Body was read.
	// A Send that fails, and Answer.Close, wait for it and for the last Read of
	// Body to return, so that nothing outlives them.
	Interrupt func()
	// Trailer returns the request's trailers; nil for none. It is called before
	// the head is written, for the names to announce, and after Body's end, for
	// the values. Only for Length -1.
	Trailer func() http.Header

	// WebSocket makes the request the handshake of a websocket: a GET without
	// Body, to which a 101 is a final answer (see Answer.Tunnel).
	WebSocket bool

	// Timeout is the response timeout. With Follow it counts from the whole
	// request being sent to the end of the answer; otherwise, from there to the
	// end of the answer's head. Until then it is also the longest time that the
	// upstream takes no byte while there is one to send; waiting for Body does
	// not count. 0 is no limit and is refused with Follow.
	Timeout time.Duration
	// Follow is set for admitted writes, which are followed to their end.
	Follow bool
	// Settles is set for other writes that count for a settle time once they are
	// lost from sight: a reload may fence what comes behind them.
	Settles bool
	// Cut, when closed before the request is wholly sent, breaks the
	// connection. Later it has no effect. nil: never.
	Cut <-chan struct{}
	// Informational is given each 1xx answer as it comes, on the goroutine that
	// called Send. nil: they are dropped.
	Informational func(status int, h http.Header)
	// MaySend is asked immediately before the first byte is written (R5), and again
	// before each part of an upload, over HTTP/2 by the goroutine that writes for
	// all requests and under its lock: it MUST NOT wait, nor call back. False:
	// nothing more is sent. nil: always true.
	MaySend func() bool
}

// maxJoined is the largest body, in bytes, that is copied behind the head to
// leave in one write with it.
const maxJoined = 64 << 10

// check refuses what cannot be written without doubt about where it ends.
// Header is checked by appendHead.
func (r *Request) check() error {
	if !httpguts.ValidHeaderFieldName(r.Method) {
		return fmt.Errorf("method %q is not a token", r.Method)
	}
	if err := checkTarget(r.Target); err != nil {
		return err
	}
	if !httpguts.ValidHostHeader(r.Host) {
		return fmt.Errorf("host %q is not valid", r.Host)
	}
	if !httpguts.ValidHeaderFieldValue(r.RemoteAddr) || !httpguts.ValidHeaderFieldValue(r.Scheme) {
		return fmt.Errorf("remote address %q or scheme %q holds a control byte", r.RemoteAddr, r.Scheme)
	}
	switch {
	case r.Length < -1:
		return fmt.Errorf("length %d: a body is -1 (not known) or more bytes long", r.Length)
	case r.Body == nil && r.Length > 0:
		return fmt.Errorf("length is %d but there is no body", r.Length)
	case r.Trailer != nil && (r.Body == nil || r.Length >= 0):
		return errors.New("trailers need a body sent chunked (length -1)")
	case r.WebSocket && (r.Method != http.MethodGet || r.Body != nil):
		return errors.New("a websocket is opened by a GET without a body")
	case r.Timeout < 0 || r.Follow && r.Timeout == 0:
		return fmt.Errorf("timeout %v: a request that is followed needs one above 0", r.Timeout)
	}
	b, inMemory := r.Body.(*bytes.Reader)
	switch {
	case inMemory && r.Length >= 0 && int64(b.Len()) != r.Length:
		return fmt.Errorf("length is %d but the body has %d bytes", r.Length, b.Len())
	case r.Body != nil && !inMemory && r.Interrupt == nil:
		return errors.New("a body that is read while it is sent needs Interrupt")
	}
	return nil
}

// checkTarget lets nothing through that could end the request line, or be
// read as another form than origin-form. Whether a target is canonical is the
// route's business.
func checkTarget(t string) error {
	if t == "" || t[0] != '/' {
		return fmt.Errorf("target %q does not begin with a slash", t)
	}
	for i := 0; i < len(t); i++ {
		if t[i] <= ' ' || t[i] == 0x7f {
			return fmt.Errorf("target %q holds a space or control byte at %d", t, i)
		}
	}
	return nil
}
