package upstream

import (
	"net"
	"time"
)

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

// lastWords is how long what was sent may be on its way when it is lost from sight:
// the last message of a websocket that both sides have ended, and the rest of a
// request that was answered before. It is below any sensible settle time.
const lastWords = 100 * time.Millisecond

// arrives waits until the upstream's kernel has all that was sent on c, and
// reports whether it has.
func arrives(c net.Conn) bool {
	const pause = 5 * time.Millisecond
	for end := time.Now().Add(lastWords); untaken(c) > 0; time.Sleep(pause) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// hangUp closes a connection on which everything is over.
func hangUp(c net.Conn) {
	deliverAtEnd(c)
	if s, ok := c.(*secure); ok {
		s.goodbye()
	}
	c.Close()
}

// hangUpSoon closes one whose upstream has answered before it had all of the
// request. It may be reading on, and a reset would take from it what it has just
// accepted.
func hangUpSoon(c net.Conn) {
	if !arrives(c) {
		c.Close()
		return
	}
	hangUp(c)
}
