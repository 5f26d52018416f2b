package upstream

import "net"

// dropAtEnd has the kernel throw away, when c ends, what it has taken of a
// request and the upstream has not. Behind an ordinary end it would go on sending
// that for minutes, to an upstream that does not read or cannot be reached: a
// write that was given up would land long after its settle time. The end of the
// process counts, too, since the kernel does not ask who closes.
func dropAtEnd(c net.Conn) { linger(c, 0) }

// deliverAtEnd takes that back.
func deliverAtEnd(c net.Conn) { linger(c, -1) }

func linger(c net.Conn, seconds int) {
	if s, ok := c.(*secure); ok {
		c = s.Conn
	}
	if tcp, ok := c.(*net.TCPConn); ok { // a unix socket's other side has it already
		_ = tcp.SetLinger(seconds)
	}
}

// hangUp closes a connection on which everything is over.
func hangUp(c net.Conn) {
	deliverAtEnd(c)
	if s, ok := c.(*secure); ok {
		s.goodbye()
	}
	c.Close()
}
