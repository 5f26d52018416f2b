package proxy

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp asks the kernel whether the peer has closed its side, even when
// bytes that it sent before are still unread.
func hungUp(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(fds, 0)
		gone = err == nil && n > 0 && fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return err != nil || gone
}

// asksAbout reports whether hungUp can tell of c. Where it cannot, net/http's
// watch is all that notices a client which leaves while its write waits.
func asksAbout(c net.Conn) bool {
	_, ok := c.(syscall.Conn)
	return ok
}
