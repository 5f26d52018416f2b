package listen

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// endStalled has the kernel end connections of l on which the other side has
// taken nothing of what was written for d. Deadlines could not do it: net/http
// writes the last of an answer behind the handler's back, and every write would
// need one of its own.
func endStalled(l net.Listener, d time.Duration) net.Listener {
	t, ok := l.(*net.TCPListener)
	if !ok || d <= 0 {
		return l // a unix socket's clients are of this machine
	}
	return &stallListener{t, int(max(1, d.Milliseconds()))}
}

// stallListener sets each connection by itself: Go listens with multipath TCP,
// and such a socket has no option that its connections would inherit.
type stallListener struct {
	*net.TCPListener
	ms int
}

func (l *stallListener) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	if raw, err := c.SyscallConn(); err == nil {
		// Where the kernel does not take it (on a connection that really has
		// several paths), the client is served as it would be on other systems.
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, l.ms)
		})
	}
	return c, nil
}
