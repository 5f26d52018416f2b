package postgres

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// quiet reports whether an idle connection has nothing to tell. A server that
// stops sends a farewell and hangs up, which makes it readable: a call sent
// over it would have an unknown result.
func quiet(conn net.Conn) bool {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	silent := false
	// Not Read: after a slow write pgx may have left a read under way, and Read
	// would wait for its turn behind that, for ever.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK) // the descriptor does not block
		silent = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && silent
}
