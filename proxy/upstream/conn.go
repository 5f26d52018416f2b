package upstream

import (
	"bufio"
	"errors"
	"math"
	"net"
	"os"
	"sync/atomic"
)

var errHeadTooLarge = errors.New("the head of the answer is over the limit (limits.max_header)")

// conn is one connection to the upstream. One goroutine reads and one writes.
type conn struct {
	net.Conn
	wire   net.Conn      // the socket: under TLS, what takes the sealed bytes
	kernel bool          // wire is the kernel's, and can writeNow
	secure *secure       // nil for clear text
	br     *bufio.Reader // reads from the conn itself, through Read below

	allow   int   // how many bytes may still be read from the wire
	readErr error // the first failure, for ever: see Read

	// Both are set by the writer before anybody hears of the write.
	written     atomic.Int64 // bytes that the kernel took
	writeFailed atomic.Bool
}

// open makes c, which is new, the connection nc.
func (c *conn) open(nc net.Conn, br *bufio.Reader) {
	c.Conn, c.wire, c.br, c.allow = nc, nc, br, math.MaxInt
	if s, ok := nc.(*secure); ok {
		c.wire, c.secure = s.Conn, s
	}
	switch c.wire.(type) {
	case *net.TCPConn, *net.UnixConn:
		c.kernel = true
	}
	br.Reset(c)
}

// Read is what the buffered reader reads from. A failure stays: the kernel
// reports a reset once and after that a plain end of the stream, and a buffered
// reader may swallow the first report, so that an answer that was broken off
// would seem to end cleanly.
func (c *conn) Read(p []byte) (int, error) {
	if c.readErr != nil {
		return 0, c.readErr
	}
	if c.allow <= 0 {
		c.readErr = errHeadTooLarge
		return 0, c.readErr
	}
	n, err := c.Conn.Read(p[:min(len(p), c.allow)])
	c.allow -= n
	c.readErr = err
	return n, err
}

// seal returns what p looks like on the wire, valid until the next call. All
// that is written has to come from it.
func (c *conn) seal(p []byte) ([]byte, error) {
	if c.secure == nil || len(p) == 0 {
		return p, nil
	}
	b, err := c.secure.seal(p)
	if err != nil {
		c.writeFailed.Store(true)
	}
	return b, err
}

// Write sends what seal returned, the first of it without waiting where that is
// possible: os.ErrDeadlineExceeded says that the kernel has not taken all of p. It
// counts on the standard library's promise that n bytes, no more and no fewer,
// were taken by the kernel.
func (c *conn) Write(p []byte, first bool) (n int, err error) {
	if first && c.kernel {
		n, err = writeNow(c.wire, p)
	} else {
		n, err = c.wire.Write(p)
	}
	c.written.Add(int64(n))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.writeFailed.Store(true)
	}
	return n, err
}

// limit bounds what may be read from the wire before unlimit, counted from
// what has been used so far: bytes that are buffered already belong to it.
func (c *conn) limit(n int) { c.allow = n - c.br.Buffered() }

// cause returns why a parser that returned err, if it did, could not go on: it
// may have taken what came before a failed read for a line, and complain of it.
func (c *conn) cause(err error) error {
	if err != nil && c.readErr != nil {
		return c.readErr
	}
	return err
}

func (c *conn) unlimit() { c.allow = math.MaxInt }
