package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"time"
)

const (
	chunkBuffer = 32 << 10
	chunkHead   = 10 // room for a chunk's size and its line end
	chunkTail   = 2  // room for a chunk's end
	maxHeads    = 8 << 10
)

// How an upload can end short of the whole request. A client's failure and a
// stall give the connection up; what else stopped the upload is known to who
// stopped it, and after a reset there may still be an answer to read.
var (
	errStopped = errors.New("the upload was stopped")
	errReset   = errors.New("the upstream does not take the request any more")
	errStall   = fmt.Errorf("the upstream took no byte of the request in time: %w", os.ErrDeadlineExceeded)
)

// uploadDone is exchange.done where the first write is the whole upload.
var uploadDone = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// clientError is a failure of Request.Body or Request.Trailer.
type clientError struct{ err error }

func (e *clientError) Error() string { return "the client's upload ended early: " + e.err.Error() }
func (e *clientError) Unwrap() error { return e.err }

// join appends a small body to the head; whole reports whether first is all that
// there is to send.
func join(first []byte, r *Request) (joined []byte, whole bool) {
	if r.Body == nil {
		return first, true
	}
	b, ok := r.Body.(*bytes.Reader)
	if !ok || r.Length < 0 || r.Length > maxJoined {
		return first, false
	}
	n := len(first)
	first = slices.Grow(first, b.Len())[:n+b.Len()]
	b.ReadAt(first[n:], b.Size()-int64(b.Len())) // not used up: see h2pool.send
	return first, true
}

// start sends first, the head with a small body, on the caller's goroutine, and
// leaves the rest to a goroutine of its own. It reports false when the
// connection turned out to be of no use: no byte was taken.
func (x *exchange) start(first []byte, whole bool) bool {
	x.mu.Lock()
	x.over = false
	x.mu.Unlock()

	rest, err := x.seal(first)
	if err == nil {
		rest, err = x.writeOnce(rest, true)
	}
	if whole && err == nil || errors.Is(err, errReset) || errors.Is(err, errStopped) {
		x.done = uploadDone
		x.uploadEnded(err)
		return x.c.written.Load() > 0
	}
	// A connection that was used before may have the deadline of its last answer
	// still (see pool.put), which would end an upload that takes longer.
	x.c.SetReadDeadline(time.Time{})
	x.done = make(chan struct{})
	x.writers.Go(func() {
		defer close(x.done)
		x.uploadEnded(x.upload(rest, whole))
	})
	if x.r.Cut != nil {
		x.writers.Go(func() {
			select {
			case <-x.r.Cut:
				x.cut()
			case <-x.done:
			}
		})
	}
	return true
}

// uploadEnded turns the end of the upload into what is known of it.
func (x *exchange) uploadEnded(err error) {
	if err == nil {
		x.uploaded(true, "")
		return
	}
	var ce *clientError
	switch {
	case errors.As(err, &ce):
		x.clientFailed(err)
		x.uploaded(false, ReasonClientUpload)
	case errors.Is(err, errStall):
		x.lose(ReasonTimeout, err)
		x.uploaded(false, ReasonTimeout)
	case errors.Is(err, errReset):
		if x.c.written.Load() > 0 { // else the body may go out on a fresh connection
			x.stop()
		}
		x.uploaded(false, ReasonReset)
	default:
		x.uploaded(false, "")
	}
}

// upload sends what is left of the first write and then the body.
func (x *exchange) upload(rest []byte, whole bool) (err error) {
	// A panic in Body's Read is the client's side failing. It would end the
	// process if it went on: nobody is above this goroutine.
	defer func() {
		if p := recover(); p != nil {
			err = &clientError{fmt.Errorf("panic while the body was read: %v", p)}
		}
	}()
	if err := x.push(rest); err != nil || whole {
		return err
	}
	buf := x.u.buffers.Get().(*[]byte)
	defer x.u.buffers.Put(buf)
	if x.r.Length >= 0 {
		return x.sendFixed(*buf)
	}
	return x.sendChunked(*buf)
}

// sendFixed sends exactly Length bytes of Body.
func (x *exchange) sendFixed(buf []byte) error {
	for left := x.r.Length; left > 0; {
		n, err := readSome(x.r.Body, buf[:min(int64(len(buf)), left)])
		left -= int64(n)
		if werr := x.write(buf[:n]); werr != nil {
			return werr
		}
		if err != nil && left > 0 {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return &clientError{fmt.Errorf("%d bytes short of its Content-Length: %w", left, err)}
		}
	}
	return nil
}

// sendChunked sends Body to its end, each read as one chunk in one write.
func (x *exchange) sendChunked(buf []byte) error {
	for {
		n, rerr := readSome(x.r.Body, buf[chunkHead:len(buf)-chunkTail])
		if rerr != nil && rerr != io.EOF {
			return &clientError{rerr}
		}
		out := chunk(buf, n)
		if rerr == io.EOF {
			var err error
			if out, err = x.appendEnd(out); err != nil {
				return &clientError{err}
			}
		}
		if err := x.write(out); err != nil || rerr == io.EOF {
			return err
		}
	}
}

func (x *exchange) appendEnd(out []byte) ([]byte, error) {
	if x.r.Trailer == nil {
		return appendTrailers(out, nil)
	}
	return appendTrailers(out, x.r.Trailer())
}

// chunk makes one chunk, in place, of the n bytes at buf[chunkHead:]. It is
// empty for none: a chunk of size 0 would end the body.
func chunk(buf []byte, n int) []byte {
	if n == 0 {
		return buf[:0]
	}
	var size [chunkHead]byte
	line := append(strconv.AppendInt(size[:0], int64(n), 16), '\r', '\n')
	from := chunkHead - len(line)
	copy(buf[from:], line)
	return append(buf[from:chunkHead+n], '\r', '\n')
}

// readSome reads until there is a byte or an error.
func readSome(r io.Reader, p []byte) (int, error) {
	for range 100 {
		if n, err := r.Read(p); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// write sends all of p.
func (x *exchange) write(p []byte) error {
	sealed, err := x.seal(p)
	if err != nil {
		return err
	}
	return x.push(sealed)
}

// seal fails where the upstream ended TLS on the connection.
func (x *exchange) seal(p []byte) ([]byte, error) {
	sealed, err := x.c.seal(p)
	if err != nil {
		return nil, errReset
	}
	return sealed, nil
}

// push sends all of p, which is sealed. The upstream has its time anew after
// every byte that it takes.
func (x *exchange) push(p []byte) error {
	for len(p) > 0 {
		rest, err := x.writeOnce(p, false)
		if err != nil && (!errors.Is(err, errStall) || len(rest) == len(p)) {
			return err
		}
		p = rest
	}
	return nil
}

// writeOnce writes p, which is sealed, until its time is over (errStall) and
// returns what is left of it.
func (x *exchange) writeOnce(p []byte, first bool) ([]byte, error) {
	if !first && !x.mayGoOn() || !x.armWrite(first) {
		return p, errStopped
	}
	n, err := x.c.Write(p, first)
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, net.ErrClosed):
		return p[n:], errStopped // closed by ourselves
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return p[n:], errReset
	case x.isStopped():
		return p[n:], errStopped
	}
	return p[n:], errStall
}

// mayGoOn asks for the leave again, and gives the request up without. A process
// that was frozen wakes up in the middle of an upload, and what ends it at its
// deadline may wake up later.
func (x *exchange) mayGoOn() bool {
	if x.r.MaySend == nil || x.r.MaySend() {
		return true
	}
	x.lose(ReasonCanceled, errLeaveOver)
	return false
}

func (x *exchange) isStopped() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stopped
}
