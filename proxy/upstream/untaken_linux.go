package upstream

import (
	"math"
	"net"

	"golang.org/x/sys/unix"
)

// untaken is how many bytes the kernel has taken for c that the other side's has
// not acknowledged.
func untaken(c net.Conn) int {
	if s, ok := c.(*secure); ok {
		c = s.Conn
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return 0 // the other side has it already
	}
	n := math.MaxInt32 // where nobody knows
	raw, err := tcp.SyscallConn()
	if err != nil {
		return n
	}
	_ = raw.Control(func(fd uintptr) {
		if queued, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			n = queued
		}
	})
	return n
}
