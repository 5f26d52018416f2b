package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
)

// Fate is what became of a request at the upstream (rule 10).
type Fate uint8

const (
	// Unsettled: the proxy lost sight of the request; the upstream may apply
	// it, now or until the settle time is over. It is the zero value, so that
	// whatever forgets to say otherwise fails closed.
	Unsettled Fate = iota
	// Settled: the request is over; the upstream has applied it or never will.
	Settled
	// NotSent: no byte of the request left the proxy, or, over HTTP/2, the
	// upstream promised that it did nothing with it.
	NotSent
)

// String returns the word used in logs and metrics.
func (f Fate) String() string {
	switch f {
	case Settled:
		return "settled"
	case NotSent:
		return "not-sent"
	}
	return "unsettled"
}

// Reason is one word for why a request is not settled, fit for logs and
// metrics. ReasonStatus makes one more for each unsettled status.
type Reason string

// Reasons of NotSent.
const (
	ReasonRefused        Reason = "refused"         // nothing listens there
	ReasonUnreachable    Reason = "unreachable"     // no route, no such name
	ReasonConnectTimeout Reason = "connect-timeout" // no connection, or no TLS on it, in time
	ReasonBadRequest     Reason = "bad-request"     // it cannot be written safely
	ReasonTooLarge       Reason = "too-large"       // HTTP/2: its head is over what the upstream says that it takes
	ReasonNoLeave        Reason = "no-leave"        // MaySend said no (R5)
	ReasonUnprocessed    Reason = "unprocessed"     // HTTP/2: the upstream promised that it did nothing with it
)

// ReasonTLS is a reason of NotSent where the handshake failed, and of Unsettled
// where the upstream's alert came behind it: in TLS 1.3 our own certificate is
// refused only when a request may be on its way already, and that the upstream
// did not look at it cannot be seen from here.
const ReasonTLS Reason = "tls"

// Reasons of Unsettled. Of these, reset, cut and canceled are also reasons of
// NotSent where the kernel had taken no byte yet.
const (
	ReasonReset        Reason = "reset"         // the upstream broke the connection
	ReasonClosed       Reason = "closed"        // it ended before the first byte of an answer
	ReasonTruncated    Reason = "truncated"     // it ended within an answer
	ReasonTimeout      Reason = "timeout"       // no whole answer, or no byte taken, in time
	ReasonBadAnswer    Reason = "bad-answer"    // an answer that cannot be trusted to end where it seems to
	ReasonCut          Reason = "cut"           // Request.Cut was closed, or a websocket was cut
	ReasonCanceled     Reason = "canceled"      // the context ended
	ReasonClientUpload Reason = "client-upload" // Request.Body ended early
	ReasonAbandoned    Reason = "abandoned"     // Answer.Close came before the answer's end
	ReasonEnded        Reason = "ended"         // both sides have ended a websocket
	ReasonStopped      Reason = "stopped"       // the proxy stops, and a websocket would go on for ever
	ReasonEarlyEnd     Reason = "early-end"     // HTTP/2: it answered in full and wanted no more of the request
	ReasonUnfinished   Reason = "unfinished"    // it still goes on
)

// ReasonStatus is the reason of an answer in full whose status is one of
// Options.UnsettledStatuses, like "status-202".
func ReasonStatus(status int) Reason { return Reason("status-" + strconv.Itoa(status)) }

// Outcome is a fate and, unless it is Settled, the reason.
type Outcome struct {
	Fate   Fate
	Reason Reason
}

// String returns for example "unsettled (reset)".
func (o Outcome) String() string {
	if o.Reason == "" {
		return o.Fate.String()
	}
	return fmt.Sprintf("%v (%s)", o.Fate, o.Reason)
}

// ErrCut is wrapped by errors of requests that Request.Cut stopped.
var ErrCut = errors.New("the upload was cut because a higher fencing token came")

// Error is every error of Send and of Answer.Read but io.EOF: what failed, and
// what is known of the request.
type Error struct {
	Outcome Outcome
	// Method and Upstream (host:port, or unix:/path) say where.
	Method, Upstream string
	Err              error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s to upstream %s: %v: %v", e.Method, e.Upstream, e.Outcome, e.Err)
	switch e.Outcome.Reason {
	case ReasonRefused, ReasonUnreachable, ReasonConnectTimeout:
		s += "; see that it is running and that upstream.url is right"
	case ReasonTooLarge:
		s += "; send less, or raise the limit there"
	case ReasonTLS:
		s += "; " + tlsHint(e.Err)
	case ReasonTimeout:
		s += "; look for the cause there, or raise response_timeout"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// facts are all that is known of one request; judge makes its outcome of them.
type facts struct {
	left   bool   // a byte of the request may have left, and the upstream did not promise to ignore it
	sent   bool   // wholly sent
	whole  bool   // the final answer has come in full
	status int    // of that answer
	lost   Reason // why sight was lost, if it was
	upload Reason // why the upload ended early, if it did
}

// judge is rule 10, and the only place where a fate is decided.
func (u *Upstream) judge(f facts) Outcome {
	switch {
	case !f.left:
		return Outcome{NotSent, f.why()}
	case f.whole && u.unproven(f.status):
		return Outcome{Unsettled, ReasonStatus(f.status)}
	case f.whole && f.sent:
		return Outcome{Fate: Settled}
	case f.whole && f.status >= http.StatusBadRequest:
		// A refusal: by A2 the upstream will not apply what it refused, so
		// what was still to be sent of it does not matter. A 2xx or 3xx this
		// early says nothing of the part that had not been sent.
		return Outcome{Fate: Settled}
	}
	return Outcome{Unsettled, f.why()}
}

// why names the loss. Of a reset the kernel tells either the reader or the
// writer; the other one sees a plain end of the stream.
func (f facts) why() Reason {
	if f.upload == ReasonReset && (f.lost == ReasonClosed || f.lost == ReasonTruncated) {
		return ReasonReset
	}
	return cmp.Or(f.lost, f.upload, ReasonUnfinished)
}

// unproven reports whether a whole answer with the status leaves its write
// unsettled.
func (u *Upstream) unproven(status int) bool { return slices.Contains(u.unsettled, status) }

// classify names the reason of an error met while an answer was read; started
// says that a byte of the final answer had come.
func classify(err error, started bool) Reason {
	var op *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ReasonTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if started {
			return ReasonTruncated
		}
		return ReasonClosed
	case errors.As(err, &op) && op.Op == alertOp:
		return ReasonTLS
	case errors.As(err, &op) && op.Op == ownAlertOp:
		return ReasonBadAnswer
	case errors.As(err, &op), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed):
		return ReasonReset
	}
	return ReasonBadAnswer
}
