package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// secure is a connection over TLS on which encrypting and sending are two
// steps.
//
// A tls.Conn that writes by itself would be of no use here. It is broken for
// ever by a write that times out, and a write to an upstream that does not read
// has to be given up and gone on with (see firstWrite); and it does not tell how
// much of what failed has left. So it writes into memory: seal turns a part of
// the request into records, and what is done with these is the same as with
// clear text, on the socket itself: deadlines, short writes, and the count of
// the bytes that the kernel took, on which "not sent" rests. Reading goes
// through tls.Conn, which can go on after a deadline.
type secure struct {
	net.Conn // the socket
	tls      *tls.Conn

	begun bool // the handshake is over; set before the connection is used

	records records // of what was read; the reader's
	noWait  bool    // a read takes what has come and never waits; the reader's

	sealed []byte // the last result of seal; the writer's

	// mu is for out, to which both sides add: what is read can ask for an
	// answer (a key update). Within tls.Conn's own lock records come in order.
	mu      sync.Mutex
	out     []byte // records to be sent
	sealing bool
}

// maxReplies bounds, in bytes, what an upstream can make us keep for it by
// asking for key updates while nothing is written.
const maxReplies = 16 << 10

var (
	// errNoCloseNotify is an end of the stream that anybody on the way could
	// have made. tls.Conn takes it for a clean one between two records.
	errNoCloseNotify = fmt.Errorf("the connection ended without the close_notify of TLS: %w", io.ErrUnexpectedEOF)
	errReplies       = errors.New("the upstream asks for key update after key update")
)

func newSecure(c net.Conn, config *tls.Config) *secure {
	s := &secure{Conn: c}
	s.tls = tls.Client((*carrier)(s), config)
	return s
}

// begin ends the handshake: from here on nothing leaves but by the caller.
func (s *secure) begin() { s.begun = true }

// Read gives clear text. io.EOF is the upstream's close_notify.
func (s *secure) Read(p []byte) (int, error) { return s.tls.Read(p) }

// seal returns the records that carry p. They are valid until the next call, and
// MUST be sent whole and in order, or the connection be closed.
func (s *secure) seal(p []byte) ([]byte, error) {
	s.mu.Lock()
	s.sealing = true
	s.mu.Unlock()
	_, err := s.tls.Write(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealing = false
	s.sealed, s.out = s.out, s.sealed[:0]
	return s.sealed, err
}

// Write seals p and sends it, for who needs no more than a net.Conn.
func (s *secure) Write(p []byte) (int, error) {
	b, err := s.seal(p)
	if err == nil {
		_, err = s.Conn.Write(b)
	}
	if err != nil {
		return 0, err // how much of p it was cannot be told
	}
	return len(p), nil
}

// CloseWrite sends the close_notify that ends what the upstream reads. Nothing
// is written after it.
func (s *secure) CloseWrite() error {
	err := s.tls.CloseWrite()
	s.mu.Lock()
	b := s.out
	s.out = nil
	s.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = s.Conn.Write(b)
	return err
}

// quiet reports whether nothing has come from the upstream but what belongs to
// TLS, such as a session ticket. That is read and done with, so that the next
// answer begins with a new record.
func (s *secure) quiet() bool {
	s.noWait = true
	defer func() { s.noWait = false }()
	var b [1]byte
	n, err := s.tls.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && s.records.whole()
}

// rest gives up the memory that an idle connection does not need.
func (s *secure) rest() {
	s.sealed = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.out) == 0 {
		s.out = nil
	}
}

// goodbye tells the upstream that nothing more comes, as TLS asks for; many
// servers log an error otherwise. No write may be under way, nor have been given
// up.
func (s *secure) goodbye() {
	if s.tls.CloseWrite() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.SetWriteDeadline(time.Time{}) // that of the request may be over
	_, _ = writeNow(s.Conn, s.out)      // the connection is closed either way
}

// carrier is what tls.Conn takes for the network.
type carrier secure

func (c *carrier) Read(p []byte) (n int, err error) {
	if c.noWait {
		n, err = readNow(c.Conn, p)
	} else {
		n, err = c.Conn.Read(p)
	}
	c.records.follow(p[:n])
	if err == io.EOF && c.begun {
		err = errNoCloseNotify
	}
	return n, err
}

func (c *carrier) Write(p []byte) (int, error) {
	if !c.begun {
		return c.Conn.Write(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sealing && len(c.out) > maxReplies {
		return 0, errReplies
	}
	c.out = append(c.out, p...)
	return len(p), nil
}

// The rest of net.Conn, of which tls.Conn needs only Close, after a handshake
// that took too long. A deadline of its own would undo the caller's.
func (c *carrier) Close() error                     { return c.Conn.Close() }
func (c *carrier) LocalAddr() net.Addr              { return c.Conn.LocalAddr() }
func (c *carrier) RemoteAddr() net.Addr             { return c.Conn.RemoteAddr() }
func (c *carrier) SetDeadline(time.Time) error      { return nil }
func (c *carrier) SetReadDeadline(time.Time) error  { return nil }
func (c *carrier) SetWriteDeadline(time.Time) error { return nil }

// records follows the frames of TLS records in a stream: five bytes of which the
// last two are the length of what comes behind them.
type records struct {
	head [5]byte
	got  int // of head
	left int // of the record behind it
}

func (r *records) follow(p []byte) {
	for len(p) > 0 {
		if r.left > 0 {
			n := min(r.left, len(p))
			r.left -= n
			p = p[n:]
			continue
		}
		r.head[r.got] = p[0]
		r.got++
		p = p[1:]
		if r.got == len(r.head) {
			r.got, r.left = 0, int(r.head[3])<<8|int(r.head[4])
		}
	}
}

// whole reports whether the last record has come in full.
func (r *records) whole() bool { return r.got == 0 && r.left == 0 }
