package upstream

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"

	"golang.org/x/net/http2"
)

// exchange is the one attempt, on a stream of c, which has taken need for it.
// unused says that it was none after all: the connection was closing, the
// upstream did nothing with the request, and nothing of r is used up.
func (c *h2conn) exchange(ctx context.Context, r *Request, need h2need) (a *Answer, unused bool, err error) {
	fields, err := c.pool.fields(r)
	if err != nil {
		c.untake(need)
		return nil, false, c.pool.u.notSent(r, ReasonBadRequest, err)
	}
	s := &h2stream{
		c: c, r: r, ctx: ctx, need: need, settles: r.Follow || r.Settles, granted: h2StreamWindow,
		event: make(chan struct{}, 1), flow: make(chan struct{}, 1),
		halt: make(chan struct{}), done: make(chan struct{}),
	}
	kept := false
	defer func() {
		if !kept {
			s.close()
		}
	}()
	if ctx.Done() != nil {
		s.unwatch = watch(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			s.lose(ReasonCanceled, context.Cause(ctx))
		})
	}
	if need.upload {
		s.writers.Go(func() { s.upload(fields) })
	} else {
		first := h2item{head: true, fields: fields, data: joined(r, need.window), end: true}
		c.mu.Lock()
		s.queue(first)
		c.mu.Unlock()
	}
	if r.Cut != nil {
		s.writers.Go(func() {
			select {
			case <-r.Cut:
				s.cut()
			case <-s.done:
			}
		})
	}
	if lost := s.awaitHead(); lost {
		s.close() // the outcome is not known before the upload is over
		err := s.fault()
		unused = err.Outcome.Fate == NotSent && !s.bodyUsed() && ofConn(err)
		return nil, unused, err
	}
	a, kept = s.answer(), true
	return a, false, nil
}

// ofConn reports whether a request was not sent for a reason that is the
// connection's and not its own.
func ofConn(err error) bool {
	return errors.Is(err, errRetired) || errors.Is(err, errUnused) || errors.Is(err, errNoRoom) || errors.Is(err, errStuck)
}

// bodyUsed reports whether anything of Body may have been read.
func (s *h2stream) bodyUsed() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.reading
}

// awaitHead waits for the final head, and gives 1xx answers to the caller.
func (s *h2stream) awaitHead() (lost bool) {
	for {
		s.c.mu.Lock()
		hints, in, lost := s.hints, s.headIn, s.lost != ""
		s.hints = nil
		s.c.mu.Unlock()
		for _, h := range hints {
			if s.r.Informational != nil {
				dropHop(h.header)
				s.r.Informational(h.status, h.header)
			}
		}
		switch {
		case in:
			return false
		case lost:
			return true
		}
		<-s.event
	}
}

// answer is what the caller gets after the head.
func (s *h2stream) answer() *Answer {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.stopped && s.head.status >= http.StatusBadRequest {
		s.hurry() // an upstream that refuses may read no more of what it refused
		s.c.mu.Unlock()
		<-s.done // the last byte may have been on its way
		s.c.mu.Lock()
	}
	h := s.head.header
	a := &Answer{Status: s.head.status, Header: h, Trailer: announced(h), Length: s.missing + int64(s.body.Len()), h2: s}
	if s.missing < 0 {
		a.Length = -1
		if s.ended && s.body.Len() == 0 && len(s.trailer) == 0 {
			a.Length = 0
		}
	}
	a.Refused = s.over && !s.sent
	if a.Status == http.StatusNoContent {
		h.Del("Content-Length")
	}
	dropHop(h)
	return a
}

// headCame takes the head of a 1xx or of the final answer. A refusal that comes
// before the request was wholly sent stops the upload (see exchange.headCame).
func (s *h2stream) headCame(f *http2.MetaHeadersFrame) {
	h, err := headOf(f)
	switch {
	case err != nil:
	case h.status == http.StatusSwitchingProtocols:
		err = errSwitching
	case h.status < 200 && f.StreamEnded():
		err = badAnswer("it ended with a 1xx")
	case h.status < 200:
		if len(s.hints) < h2MaxHints {
			s.hints = append(s.hints, h)
			s.signal(s.event)
		}
		return
	}
	if err == nil {
		s.missing, err = bodyLength(s.r.Method, h)
	}
	if err != nil {
		s.lose(ReasonBadAnswer, err)
		return
	}
	s.headIn, s.head = true, h
	if h.status >= http.StatusBadRequest {
		s.stop("")
	}
	if !s.r.Follow {
		s.disarm()
	}
	if f.StreamEnded() {
		s.end()
	}
	s.signal(s.event)
}

// bodyLength is how many bytes of DATA have to come; -1 where only END_STREAM
// tells.
func bodyLength(method string, h answerHead) (int64, error) {
	length, err := contentLength(h.header)
	if err != nil {
		return 0, err
	}
	if method == http.MethodHead || h.status == http.StatusNoContent || h.status == http.StatusNotModified {
		return 0, nil
	}
	return length, nil
}

func (s *h2stream) trailerCame(f *http2.MetaHeadersFrame) {
	if !f.StreamEnded() {
		s.lose(ReasonBadAnswer, protocolError("a second head without END_STREAM"))
		return
	}
	s.trailer = make(http.Header)
	for name, values := range headerOf(f) {
		if trailerAllowed(name) {
			s.trailer[name] = values
		}
	}
	s.end()
}

func (s *h2stream) dataCame(f *http2.DataFrame) {
	data := f.Data()
	switch {
	case !s.headIn:
		s.lose(ReasonBadAnswer, protocolError("DATA before the head"))
	case s.ended:
		s.lose(ReasonBadAnswer, protocolError("DATA after the end of the answer"))
	case s.missing >= 0 && int64(len(data)) > s.missing:
		s.lose(ReasonBadAnswer, badAnswer("more bytes than its Content-Length"))
	default:
		if s.missing >= 0 {
			s.missing -= int64(len(data))
		}
		s.body.Write(data)
		s.used += int64(f.Length) - int64(len(data)) // padding is not read by anyone
		if f.StreamEnded() {
			s.end()
		}
		s.signal(s.event)
	}
}

// readH2 is Read over HTTP/2.
func (a *Answer) readH2(p []byte) (int, error) {
	s := a.h2
	for {
		n, over, lost := s.read(p)
		switch {
		case lost && n == 0:
			return 0, s.fault()
		case over:
			if len(s.trailer) > 0 && a.Trailer == nil {
				a.Trailer = make(http.Header)
			}
			maps.Copy(a.Trailer, s.trailer)
			return n, io.EOF
		case n > 0:
			return n, nil
		}
		<-s.event
	}
}

// waits reports whether neither a byte of the body nor its end has come.
func (s *h2stream) waits() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.body.Len() == 0 && !s.ended && s.lost == ""
}

// read takes what has come. over: that was all of a whole answer, whose trailers
// do not change any more.
func (s *h2stream) read(p []byte) (n int, over, lost bool) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	n, _ = s.body.Read(p)
	s.used += int64(n)
	if s.used >= h2StreamWindow/2 && !s.ended && !s.freed {
		id, used := s.id, uint32(s.used)
		s.granted += s.used
		s.used = 0
		s.c.control(func(w *http2.Framer) { w.WriteWindowUpdate(id, used) })
	}
	return n, s.ended && s.body.Len() == 0, s.lost != "" && !s.ended
}

// fault is the error of a stream that was lost.
func (s *h2stream) fault() *Error {
	o := s.outcome()
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return &Error{Outcome: o, Method: s.r.Method, Upstream: s.c.pool.u.addr, Err: s.lostErr}
}
