package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
)

// clientConn is a client's connection in clear text. The handler can keep
// net/http from reading it, for two reasons.
//
// A small body mostly comes in one piece with its head, and then lies in
// net/http's buffer. With the connection closed to reads, a read of the body
// gives that and never waits.
//
// Behind the body's end net/http watches the connection for the client's
// leaving: a goroutine, a read that finds nothing, and a deadline to end it, for
// every request. An admitted write goes on without its client (rule 11), and
// one that waits looks for it by itself (see watchClient).
//
// A read that is not allowed gives no bytes and no error, which io.Reader defines
// as "nothing happened": net/http's buffer passes that on, and its watch ends.
type clientConn struct {
	net.Conn
	readers atomic.Int32 // one of the following
}

// Who may read from a clientConn.
const (
	readersAll   int32 = iota
	readersWatch       // net/http's watch alone, which is the one that reads a single byte
	readersNone
)

func (c *clientConn) Read(p []byte) (int, error) {
	if who := c.readers.Load(); who != readersAll && (who == readersNone || len(p) != 1) {
		return 0, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite lets net/http end its side alone: a client that still sends would
// get a reset, and might lose the answer over it.
func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// NewListener returns l with connections whose reading the handler can hold. The
// server of NewServer works over any other listener too, only slower.
func NewListener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept leaves TLS as it is: net/http has to see it, and what it reads from it
// cannot be held back.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if _, secure := c.(*tls.Conn); secure || err != nil {
		return c, err
	}
	return &clientConn{Conn: c}, nil
}

type connKey struct{}

// ConnContext is for http.Server: it lets the handler look at its client's
// connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// clientConnOf is the connection that carries r alone; nil for another one.
func clientConnOf(r *http.Request) *clientConn {
	if stream(r) {
		return nil
	}
	c, _ := r.Context().Value(connKey{}).(*clientConn)
	return c
}

// socketOf is the client's own socket, beneath its TLS; nil where it is not
// known.
func socketOf(r *http.Request) net.Conn {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	switch c := c.(type) {
	case *tls.Conn:
		return c.NetConn()
	case *clientConn:
		return c.Conn
	}
	return c
}

// clientGone reports whether the client has closed its side of the
// connection, or reset its stream. In doubt it has not.
func clientGone(r *http.Request) bool {
	if stream(r) {
		return r.Context().Err() != nil
	}
	c := socketOf(r) // bytes that are not decrypted yet hide nothing from the kernel
	return c != nil && hungUp(c)
}
