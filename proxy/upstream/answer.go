package upstream

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
)

var (
	errAbandoned = errors.New("the answer was closed before its end")
	errClosed    = errors.New("the answer is closed")
)

// Answer is the final answer to a request, read by one goroutine. The caller
// reads it to its end and MUST close it.
type Answer struct {
	Status int
	// Header is as it came, without what is hop-by-hop. Content-Length stays
	// where it came, also for HEAD and 304.
	Header http.Header
	// Length is the number of bytes that Read will give, or -1 where only the
	// end of the answer tells.
	Length int64
	// Trailer holds the announced names with nil values, and after Read has
	// returned io.EOF the trailers that came, announced or not.
	Trailer http.Header
	// Refused: the request was not wholly sent and will not be, because the
	// answer (400 or more) came before that and stopped the upload, or the
	// upload failed. Request.Body was not read to its end, so the client's
	// connection is good for this answer only.
	Refused bool
	// Tunnel is set with a 101, and only then: what follows is no body.
	Tunnel *Tunnel

	h2     *h2stream // nil over HTTP/1.1, and then:
	x      *exchange
	kind   framing
	left   int64     // of a fixed body
	chunks io.Reader // of a chunked body
	end    error     // what Read returns from now on
}

// answer reads up to the final head.
func (x *exchange) answer() (*Answer, error) {
	for {
		h, started, err := readHead(&x.c, x.u.maxHeader)
		if err != nil {
			return nil, x.broken(err, started)
		}
		if h.status == http.StatusSwitchingProtocols {
			return x.switched(h)
		}
		if h.status >= 200 {
			return x.final(h)
		}
		if _, _, err := frame(x.r.Method, h); err != nil {
			return nil, x.broken(err, true) // to another reader the final head is elsewhere
		}
		if x.r.Informational != nil {
			dropHop(h.header)
			x.r.Informational(h.status, h.header)
		}
	}
}

func (x *exchange) final(h answerHead) (*Answer, error) {
	kind, length, err := frame(x.r.Method, h)
	if err != nil {
		return nil, x.broken(err, true)
	}
	x.a = Answer{Status: h.status, Header: h.header, Length: length, x: x, kind: kind, left: length}
	a := &x.a
	x.keepAlive = keepAlive(h, kind)
	a.Refused = x.headCame(h.status)
	if kind == chunked {
		a.chunks = httputil.NewChunkedReader(x.c.br)
		a.Trailer = announced(h.header)
	}
	if h.status == http.StatusNoContent {
		h.header.Del("Content-Length")
	}
	dropHop(h.header)
	if kind == noBody {
		a.finish()
	}
	return a, nil
}

// Read reads the body. io.EOF says that the answer is whole; any other error is
// an *Error, and the client has to be shown a broken answer then. An answer that
// ended short wraps io.ErrUnexpectedEOF, one that was cut ErrCut.
func (a *Answer) Read(p []byte) (int, error) {
	if a.end != nil || len(p) == 0 {
		return 0, a.end
	}
	if a.h2 != nil {
		n, err := a.readH2(p)
		a.end = err
		return n, err
	}
	n, err := a.readBody(p)
	switch {
	case err == nil:
	case err == io.EOF:
		a.finish()
	default:
		err = a.x.broken(err, true)
		a.end = &Error{Outcome: a.Outcome(), Method: a.x.r.Method, Upstream: a.x.u.addr, Err: err}
	}
	return n, a.end
}

// readBody returns io.EOF only for a whole answer.
func (a *Answer) readBody(p []byte) (n int, err error) {
	br := a.x.c.br
	switch a.kind {
	case fixed:
		n, err = br.Read(p[:min(int64(len(p)), a.left)])
		a.left -= int64(n)
		if a.left == 0 {
			return n, io.EOF
		}
	case chunked:
		n, err = a.chunks.Read(p)
		if err != io.EOF {
			return n, err
		}
		if err = a.readTrailer(br); err == nil {
			return n, io.EOF
		}
	case untilClose:
		n, err = br.Read(p)
		if err == io.EOF {
			// The kernel tells of a reset once: if a write was told, this
			// read sees a plain end. So it counts only when every write is
			// over and none has failed.
			<-a.x.done
			if !a.x.c.writeFailed.Load() {
				return n, io.EOF
			}
		}
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// readTrailer reads what follows the last chunk.
func (a *Answer) readTrailer(br *bufio.Reader) error {
	a.x.c.limit(a.x.u.maxHeader)
	defer a.x.c.unlimit()
	if next, err := br.Peek(2); err == nil && string(next) == "\r\n" {
		br.Discard(2)
		return nil
	}
	mime, err := textproto.NewReader(br).ReadMIMEHeader()
	if err != nil {
		return a.x.c.cause(err)
	}
	if err := checkNames(http.Header(mime)); err != nil {
		return err
	}
	for name, values := range mime {
		if trailerAllowed(name) {
			if a.Trailer == nil {
				a.Trailer = make(http.Header)
			}
			a.Trailer[name] = values
		}
	}
	return nil
}

func (a *Answer) finish() {
	a.x.mu.Lock()
	a.x.whole = true
	a.x.mu.Unlock()
	a.end = io.EOF
}

// Waits reports whether the body has not begun to come, though there is one.
func (a *Answer) Waits() bool {
	if a.h2 != nil {
		return a.end == nil && a.h2.waits()
	}
	return a.end == nil && a.x.c.br.Buffered() == 0
}

// UploadDone is closed when nothing of the request is written any more. It is
// closed already unless the answer came early.
func (a *Answer) UploadDone() <-chan struct{} {
	if a.h2 != nil {
		return a.h2.done
	}
	return a.x.done
}

// Outcome is what is known of the request by now. It is final once Read has
// returned io.EOF and UploadDone is closed, or Read has returned another
// error, or the answer is closed; before that it is Unsettled.
func (a *Answer) Outcome() Outcome {
	if a.h2 != nil {
		return a.h2.outcome()
	}
	return a.x.outcome()
}

// Close ends the exchange where it is not over, and waits for the upload to end
// (see Request.Interrupt). It is called by the goroutine that reads; the second
// call does nothing.
func (a *Answer) Close() {
	if a.end == nil {
		a.end = errClosed
	}
	if a.h2 != nil {
		a.h2.close()
		return
	}
	a.x.close()
}

var _ io.Reader = (*Answer)(nil)
