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
	err = raw.Read(func(fd uintptr) bool { // the descriptor does not block
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		silent = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
		return true
	})
	return err == nil && silent
}
