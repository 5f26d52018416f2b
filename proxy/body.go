package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
)

// body is a request's body on its way to the upstream.
type body struct {
	reader    io.Reader // nil for none; *bytes.Reader when it is in memory
	length    int64     // as the client declared it, -1 for chunked
	streaming bool      // only its beginning is in memory
	reserved  int64     // bytes under Handler.MaxBuffered
}

// errBuffers refuses a request for whose body there is no room in memory.
var errBuffers = errors.New("limits.max_buffered is used up by the bodies of other requests: try again")

// readAhead reads up to MaxBodyBuffer bytes of the body before the gate, so
// that a client that uploads slowly holds no key, and that net/http notices
// when it leaves (it does so only after the body's end).
func (x *exchange) readAhead() error {
	if x.r.Body == nil || x.r.Body == http.NoBody || x.r.ContentLength == 0 {
		return nil
	}
	size, limit := x.r.ContentLength, x.h.MaxBodyBuffer
	if size < 0 || size > limit {
		size = limit
	}
	if x.h.buffered.Add(size) > x.h.MaxBuffered {
		x.h.buffered.Add(-size)
		return errBuffers
	}
	x.body = body{length: x.r.ContentLength, reserved: size}

	head, err := read(x.r.Body, x.r.ContentLength, size)
	switch {
	case errors.Is(err, io.EOF):
		x.body.reader = bytes.NewReader(head)
	case err != nil:
		return gate.ErrLeft
	default:
		x.body.streaming = true
		x.body.reader = io.MultiReader(bytes.NewReader(head), x.r.Body)
	}
	return nil
}

// read reads size bytes of a body with the declared length, -1 for unknown.
// io.EOF says that this was all of it; any other error, that the client broke
// off.
func read(from io.Reader, length, size int64) ([]byte, error) {
	if length >= 0 {
		buf := make([]byte, size)
		if _, err := io.ReadFull(from, buf); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		if size == length {
			return buf, io.EOF
		}
		return buf, nil
	}
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(from, size))
	switch {
	case err != nil:
		return nil, err
	case n < size:
		return buf.Bytes(), io.EOF
	}
	return buf.Bytes(), nil
}

// passBody lets the body of a request that no fence touches stream through.
func (x *exchange) passBody() {
	if x.r.Body != nil && x.r.Body != http.NoBody && x.r.ContentLength != 0 {
		x.body = body{reader: x.r.Body, length: x.r.ContentLength, streaming: true}
	}
}

// release gives back what readAhead reserved.
func (x *exchange) release() {
	x.h.buffered.Add(-x.body.reserved)
	x.body.reserved = 0
}
