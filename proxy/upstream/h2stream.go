package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// h2stream is one request on its stream: what exchange is over HTTP/1.1. The
// caller's goroutine waits and reads; a longer body has a goroutine of its own.
type h2stream struct {
	c    *h2conn
	r    *Request
	ctx  context.Context
	need h2need
	// settles is r's, or its Follow. Behind close, while a write runs, nothing else is
	// read of r.
	settles bool

	unwatch func() bool    // stops the watch of the context; nil for none
	writers sync.WaitGroup // the upload, the watch of Cut, and a call of Interrupt

	event chan struct{} // something for who reads; holds one
	flow  chan struct{} // something for the upload: window, or a write that is over; holds one
	halt  chan struct{} // closed when no more of the request may be written
	done  chan struct{} // closed when nothing of the request is written any more

	// The connection's mu guards the rest. What it says of the request:
	id      uint32 // 0 until the writer has begun it
	left    bool   // a byte of it may have left
	pending bool   // a part of it waits for the writer, or is being written
	writing bool   // of these, the latter
	reading bool   // an upload has its head written, and reads Body
	over    bool   // nothing of it is written (any more)
	stopped bool   // no more of it may be written
	sent    bool   // wholly sent
	window  int64  // bytes of the body that may be sent
	upTo    int64  // h2conn.wire behind what was written of it

	// Of the answer:
	heard   bool         // anything of it came
	headIn  bool         // its final head came
	ended   bool         // it has come in full
	head    answerHead   // the final one
	hints   []answerHead // 1xx not yet given to the caller
	body    bytes.Buffer // what the caller has not read
	missing int64        // bytes of the body to come; -1 where only the end tells
	trailer http.Header
	granted int64 // bytes that the upstream may still send
	used    int64 // bytes read since its window was last given back

	// And of its end:
	freed      bool          // it counts no more on the connection
	told       chan struct{} // of a write that is lost from sight; see tell
	reset      bool          // by the upstream
	stopReason Reason        // why the upload was stopped although the stream stood
	failed     Reason        // why the upload ended early
	lost       Reason        // why the stream was given up; the first reason counts
	lostErr    error

	timer    *time.Timer
	deadline time.Time // when the upstream has to have done the next thing; zero for none
}

const (
	// h2MaxHints bounds the 1xx answers that wait for a slow client; more are
	// dropped, as any of them may be.
	h2MaxHints = 16
	// h2EarlyEnd is how long the end of a gRPC call may be behind its status.
	h2EarlyEnd = 100 * time.Millisecond
)

func (s *h2stream) signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *h2stream) flowed() { s.signal(s.flow) }

// arm gives the upstream its time for the next thing, disarm takes it back; mu
// is held for both.
func (s *h2stream) arm() {
	if s.freed || s.r.Timeout == 0 || s.headIn && !s.r.Follow {
		s.disarm()
		return
	}
	s.deadline = time.Now().Add(s.r.Timeout)
	if s.timer == nil {
		s.timer = time.AfterFunc(s.r.Timeout, s.expired)
	} else {
		s.timer.Reset(s.r.Timeout)
	}
}

func (s *h2stream) disarm() {
	s.deadline = time.Time{}
	if s.timer != nil {
		s.timer.Stop()
	}
}

// expired gives the stream up, and lets no other on a connection that may be
// dead without anybody having heard of it.
func (s *h2stream) expired() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.deadline.IsZero() || time.Now().Before(s.deadline) {
		return // it was given time while this was on its way
	}
	s.c.retired = true
	err := fmt.Errorf("no answer in full in time: %w", os.ErrDeadlineExceeded)
	if !s.over {
		err = errStall
	}
	s.lose(ReasonTimeout, err)
}

// lose gives the stream up; mu is held. The first reason is kept.
func (s *h2stream) lose(reason Reason, err error) {
	if s.freed {
		return
	}
	if s.lost == "" {
		s.lost, s.lostErr = reason, err
	}
	if s.settles { // else nothing waits for its settle time
		s.hurry()
	}
	s.owe()
	s.stop("")
	if !s.need.upload {
		s.uploaded("")
	}
	s.free()
	s.signal(s.event)
	s.flowed()
}

// hurry bounds the write of a part that is given up, or was answered; mu is held.
// The connection lives on for others, and what the kernel had not taken yet,
// END_STREAM perhaps, would leave when the upstream reads again: long after the
// settle time. Either the kernel takes it soon, or it ends with the connection.
func (s *h2stream) hurry() {
	if s.writing && s.c.err == nil {
		s.c.hurry(h2LostWrite)
	}
}

// connLost is lose for the end of the connection.
func (s *h2stream) connLost(err error) {
	switch {
	case !s.left:
		s.lose(ReasonReset, errUnused)
	case s.ended && s.writing:
		// The answer and the end of the connection may come before the writer
		// has told of its last write, which decides (see written).
	case s.ended:
		s.lose(ReasonReset, err)
	case err == io.EOF && s.headIn:
		s.lose(ReasonTruncated, io.ErrUnexpectedEOF)
	default:
		s.lose(classify(err, s.headIn), err)
	}
}

// unprocessed is lose for the upstream's promise that it did nothing and will
// do nothing with the request. One that has begun to answer cannot promise it.
func (s *h2stream) unprocessed(err error) {
	s.reset = true // it does not know the stream
	if s.heard {
		s.lose(ReasonReset, err)
		return
	}
	if !s.freed {
		s.left = false
	}
	s.lose(ReasonUnprocessed, err)
}

// resetCame takes RST_STREAM.
func (s *h2stream) resetCame(code http2.ErrCode) {
	s.reset = true
	err := fmt.Errorf("the upstream reset the stream (%v)", code)
	switch {
	case code == http2.ErrCodeRefusedStream:
		s.unprocessed(err)
	case s.ended && code == http2.ErrCodeNo:
		s.stop(ReasonEarlyEnd)
	case s.ended:
		s.stop(ReasonReset)
	default:
		s.lose(ReasonReset, err)
	}
}

// stop ends the upload; mu is held. What is just being written counts still.
func (s *h2stream) stop(reason Reason) {
	if s.stopped || s.over {
		return
	}
	s.stopped, s.stopReason = true, reason
	close(s.halt)
	if s.reading && s.r.Interrupt != nil {
		s.writers.Go(s.r.Interrupt) // it is the caller's code: not under mu, nor by the reader
	}
	if !s.need.upload && !s.writing {
		s.uploaded(reason)
	}
}

// cut gives the stream up unless the request was wholly sent or refused.
func (s *h2stream) cut() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.over && !s.stopped {
		s.lose(ReasonCut, ErrCut)
	}
}

// written is what became of a part of the request; mu is held.
func (s *h2stream) written(end bool, err error) {
	s.pending, s.writing = false, false
	// A last byte that was taken just when the stream was given up is not
	// counted: the loss has been told already.
	s.sent = s.sent || end && err == nil && s.lost == ""
	switch {
	case !s.left:
		s.connLost(err)
	case err != nil:
		s.stop(ReasonReset) // there may still be an answer to read
		if !s.need.upload {
			s.uploaded(ReasonReset) // it may have been stopped before, while this write ran
		}
	case !s.need.upload:
		s.uploaded("")
	case s.c.err != nil && !end:
		s.connLost(s.c.err) // which left it to this write
	default:
		s.reading = !s.stopped // nobody would interrupt it any more
	}
	s.flowed()
}

// uploaded ends the upload; mu is held. From here the time of the answer counts.
func (s *h2stream) uploaded(reason Reason) {
	if s.over {
		return
	}
	s.over = true
	if !s.sent {
		s.failed = reason
		if reason == "" {
			s.failed = s.stopReason
		}
	}
	close(s.done)
	if s.ended {
		s.free()
		return
	}
	s.arm()
}

// end takes note that the answer has come in full; mu is held.
func (s *h2stream) end() {
	if s.missing > 0 {
		s.lose(ReasonTruncated, fmt.Errorf("%d bytes short of its Content-Length: %w", s.missing, io.ErrUnexpectedEOF))
		return
	}
	s.ended = true
	switch {
	case s.over:
		s.free()
	case s.grpc():
		// The status ends a gRPC call. A client that streams waits for it with
		// its half open, and would for ever. That of one whose end is just on
		// its way, behind all its messages, is a usual one.
		time.AfterFunc(h2EarlyEnd, func() {
			s.c.mu.Lock()
			defer s.c.mu.Unlock()
			s.stop(ReasonEarlyEnd)
		})
	}
	s.signal(s.event)
}

// grpc reports whether it is a gRPC call. In gRPC-Web, which is for HTTP/1.1,
// nobody waits for the status with the call half open.
func (s *h2stream) grpc() bool {
	rest, ok := strings.CutPrefix(strings.ToLower(s.r.Header.Get("Content-Type")), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// free ends the stream on the connection, once; mu is held. Where one side of it
// is still open, the upstream is told.
func (s *h2stream) free() {
	if s.freed {
		return
	}
	s.freed = true
	s.disarm()
	if s.ended && s.judge().Fate == Unsettled {
		s.owe() // it is lost from sight as well
	}
	switch {
	case s.id == 0:
		s.c.refund(s.need.window)
	case !s.reset && !(s.ended && s.sent):
		s.tell()
		if s.c.resets++; s.c.resets >= h2MaxResets {
			s.c.retired = true // servers take many of them for an attack
		}
	}
	delete(s.c.streams, s.id)
	s.c.released(s.need)
}

// close ends the stream where it is not over, and waits for the upload. Only
// the caller's goroutine calls it.
func (s *h2stream) close() {
	if s.unwatch != nil {
		s.unwatch()
	}
	s.c.mu.Lock()
	if s.need.upload || !s.ended || !s.writing {
		s.lose(ReasonAbandoned, errAbandoned)
	} else {
		s.hurry() // the writer is just done with it, or hangs in it, and writers may wait for that
	}
	s.c.mu.Unlock()
	s.writers.Wait()
}
