package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// body is a request's body on its way to the upstream.
type body struct {
	reader    io.Reader // nil for none; *bytes.Reader when it is in memory
	length    int64     // as the client declared it, -1 for chunked
	streaming bool      // only its beginning is in memory
	whole     bool      // the key is in it: all of it is read, or nothing is made of it

	// ended: the client has sent all of it. An upstream that answers at once can
	// be faster than the news that it took the last byte, but not than this.
	ended    atomic.Bool
	reserved int64     // bytes under Handler.MaxBuffered
	call     *callBody // the reader of a gRPC call; nil for others
}

var (
	// errBuffers refuses a request for whose body there is no room in memory.
	errBuffers = errors.New("limits.max_buffered is used up by the bodies of other requests: try again")
	// errBadBody refuses a body whose framing is broken.
	errBadBody = errors.New("the framing of the body is broken")
)

// firstRead is how many bytes of a body there is room for before the first of
// them has come.
const firstRead = 4 << 10

// readAhead reads up to MaxBodyBuffer bytes of the body before the gate, so
// that a client that uploads slowly holds no key, and that net/http notices
// when it leaves (it does so only after the body's end). A client that sends
// nothing for BodyTimeout counts as gone.
func (x *exchange) readAhead() error {
	if x.body.reader != nil { // the key is in it: it was read for that
		return nil
	}
	if x.r.Body == nil || x.r.Body == http.NoBody || x.r.ContentLength == 0 {
		return nil
	}
	x.body.length = lengthOf(x.r)
	if stream(x.r) && wire.IsGRPC(x.r.Header) {
		// A gRPC client may wait for an answer before it sends more, or
		// anything. A raise cuts its call (L1), and HTTP/2 tells when it leaves.
		x.passBody()
		return nil
	}
	size := x.book.MaxBodyBuffer
	if n := x.body.length; n >= 0 && n < size {
		size = n
	}
	head, err := x.read(size)
	if err == nil || errors.Is(err, io.EOF) {
		if bad := badTrailer(x.r.Trailer); bad != nil {
			return bad // the hop would refuse it too, but behind the gate
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		x.body.reader = bytes.NewReader(head)
		if stream(x.r) && len(x.r.Trailer) == 0 {
			// HTTP/2 needs no length, but many an upstream takes no chunks.
			x.body.length = int64(len(head))
		}
		return nil
	case err == nil || errors.Is(err, errBuffers) || errors.Is(err, errRulesChanged): // what observes goes on without more room
		x.body.streaming = true
		x.body.reader = io.MultiReader(bytes.NewReader(head), passed{x}, x.upload(int64(len(head))))
	}
	return err
}

// badTrailer refuses trailers that cannot be sent on, those that were only
// announced among them. net/http takes "X-Sum : 1" for one of the name "X-Sum ".
func badTrailer(trailer http.Header) error {
	for name, values := range trailer {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return fmt.Errorf("%w: the trailer %q is none", errBadBody, name)
		}
	}
	return nil
}

// lengthOf is the declared length of a body that is sent on with it, or -1. An
// HTTP/2 client may declare trailers, too. HTTP/1.1 has them only behind chunks,
// and what a client counts on must not be lost unseen.
func lengthOf(r *http.Request) int64 {
	if len(r.Trailer) > 0 {
		return -1
	}
	return r.ContentLength
}

// errBodyTooLarge refuses a request whose key is in a body that is not read as
// a whole.
var errBodyTooLarge = errors.New("the body names the resource, and is larger than limits.max_body_buffer")

// readWhole reads the body of a request whose key is in it.
func (x *exchange) readWhole() ([]byte, error) {
	if x.r.ContentLength > x.book.MaxBodyBuffer {
		return nil, errBodyTooLarge // nothing of it has been read
	}
	x.body.whole = true
	if err := x.readAhead(); err != nil {
		return nil, err
	}
	whole, ok := x.body.reader.(*bytes.Reader)
	switch {
	case x.body.reader == nil:
		return nil, nil
	case !ok || int64(whole.Len()) > x.book.MaxBodyBuffer:
		return nil, errBodyTooLarge
	}
	content := make([]byte, whole.Len())
	if _, err := whole.ReadAt(content, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return content, nil
}

// read reads size bytes of the body, or all of it, and then returns io.EOF. It
// takes memory as the bytes come: clients that send nothing use up none of
// what others need.
func (x *exchange) read(size int64) ([]byte, error) {
	buf := x.arrived()
	if n := int64(len(buf)); n > 0 && n == x.body.length {
		return buf, io.EOF
	}
	rc := http.NewResponseController(x.w)
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	if x.rule.Observe { // see below: nothing else ends its wait for a client
		defer x.book.whenHurried(func() { _ = rc.SetReadDeadline(past) })()
	}
	most := size
	if x.body.whole && x.body.length < 0 {
		most++ // whether it ends there is seen only behind it
	}
	for int64(len(buf)) < most {
		if len(buf) > 0 && x.book.hurried.Err() != nil {
			return buf, errRulesChanged
		}
		if len(buf) == cap(buf) {
			grown := min(most, max(firstRead, 2*int64(cap(buf))))
			if !x.reserve(min(grown, size) - int64(cap(buf))) {
				return buf, errBuffers
			}
			buf = append(make([]byte, 0, grown), buf...)
		}
		if !x.rule.Observe { // nothing is refused there, not even a client that pauses
			_ = rc.SetReadDeadline(time.Now().Add(x.h.BodyTimeout))
		}
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF && (x.body.length < 0 || int64(len(buf)) == x.body.length) {
			return buf, io.EOF
		}
		if err != nil {
			if stream(x.r) {
				// Left, timed out, or framed badly: each is a reset (RFC 9113, 8.1.1).
				return nil, gate.ErrLeft
			}
			return nil, brokenBody(err)
		}
	}
	if x.body.length == size {
		return buf, io.EOF
	}
	return buf, nil
}

// arrived returns what has come of a small body together with its head, and
// waits for nothing. Small is what net/http's buffer has room for. A client that
// expects a 100 has sent none of it, and a read would ask for it.
func (x *exchange) arrived() []byte {
	c, n := clientConnOf(x.r), x.r.ContentLength
	if c == nil || n <= 0 || n > min(firstRead, x.book.MaxBodyBuffer) || x.r.Header["Expect"] != nil || !x.reserve(n) {
		return nil
	}
	who := readersWatch
	if x.unwatched && asksAbout(c.Conn) {
		who = readersNone
	}
	c.readers.Store(who)
	buf := make([]byte, 0, n)
	for len(buf) < cap(buf) {
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n == 0 || err != nil {
			break
		}
	}
	if len(buf) < cap(buf) || who == readersWatch {
		c.readers.Store(readersAll)
	}
	if len(buf) == 0 {
		x.release() // who sends nothing uses up none of what others need
		return nil
	}
	return buf
}

// brokenBody tells a client that broke off, or that was waited for in vain,
// from one that sends what is no body.
func brokenBody(err error) error {
	var op net.Error
	if errors.As(err, &op) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, http.ErrBodyReadAfterClose) {
		return gate.ErrLeft
	}
	return fmt.Errorf("%w: %w", errBadBody, err)
}

// reserve takes n bytes of what all bodies together may use.
func (x *exchange) reserve(n int64) bool {
	if x.h.buffered.Add(n) > x.book.MaxBuffered {
		x.h.buffered.Add(-n)
		return false
	}
	x.body.reserved += n
	return true
}

// passBody lets the body of a request that no fence touches stream through,
// behind what of it is here already: all of a small one, mostly.
func (x *exchange) passBody() {
	if x.r.Body != nil && x.r.Body != http.NoBody && x.r.ContentLength != 0 {
		x.body.length = lengthOf(x.r)
		here := x.arrived()
		if n := int64(len(here)); n > 0 && n == x.body.length {
			x.body.reader = bytes.NewReader(here)
			return
		}
		x.body.streaming = true
		x.body.reader = x.upload(int64(len(here)))
		if len(here) > 0 {
			x.body.reader = io.MultiReader(bytes.NewReader(here), passed{x}, x.body.reader)
		}
		if x.fenced && stream(x.r) && wire.IsGRPC(x.r.Header) {
			x.body.call = &callBody{body: x.body.reader}
			x.body.reader = x.body.call
		}
	}
}

// upload is what comes of the body behind the first read bytes, and notes its
// end.
func (x *exchange) upload(read int64) io.Reader {
	return &upload{from: x.r.Body, left: x.body.length - read, ended: &x.body.ended}
}

type upload struct {
	from  io.Reader
	left  int64 // below 0 where nobody knows
	ended *atomic.Bool
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	u.left -= int64(n)
	if err == io.EOF || u.left == 0 {
		u.ended.Store(true)
	}
	return n, err
}

// passed stands behind what was read ahead of an upload: once that is sent, its
// memory is free for others, however long the rest takes.
type passed struct{ x *exchange }

func (p passed) Read([]byte) (int, error) {
	p.x.release()
	return 0, io.EOF
}

// dropBody gives the memory of a body that was sent back before the answer is
// read, which may take its client as long as it likes.
func (x *exchange) dropBody() {
	if x.body.streaming || x.body.reader == nil {
		return
	}
	x.body.reader, x.request.Body = bytes.NewReader(nil), nil
	x.release()
}

// release gives back what readAhead reserved, and ends what it left running.
func (x *exchange) release() {
	if x.body.call != nil {
		x.body.call.close(http.NewResponseController(x.w))
	}
	x.h.buffered.Add(-x.body.reserved)
	x.body.reserved = 0
}
