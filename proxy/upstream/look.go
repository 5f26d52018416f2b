package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// look is one read or write that never waits: what the kernel has, or takes, at
// once. Looks are used again: there are two for each request, and what they are
// made of would else be allocated every time.
type look struct {
	p           []byte
	n           int
	err         error
	read, write func(fd uintptr) bool // of p
	byte        [1]byte
}

var looks = sync.Pool{New: func() any {
	l := new(look)
	l.read = func(fd uintptr) bool {
		l.n, l.err = syscall.Read(int(fd), l.p)
		return true // the descriptor never blocks
	}
	l.write = func(fd uintptr) bool {
		l.n, l.err = syscall.Write(int(fd), l.p)
		return true
	}
	return l
}}

// readNow reads what has come by now; it returns os.ErrDeadlineExceeded where
// that is nothing, and never waits.
func readNow(c net.Conn, p []byte) (n int, err error) {
	l := looks.Get().(*look)
	defer looks.Put(l)
	return l.readNow(c, p)
}

func (l *look) readNow(c net.Conn, p []byte) (n int, err error) {
	rc, err := rawOf(c)
	if err != nil {
		return 0, err
	}
	l.p = p
	rerr := rc.Read(l.read)
	n, err = l.result()
	switch {
	case rerr != nil: // a deadline in the past among them: nothing was looked at
		return 0, errors.New(rerr.Error())
	case err == syscall.EAGAIN:
		return 0, os.ErrDeadlineExceeded
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// writeNow writes what the kernel takes at once; it returns
// os.ErrDeadlineExceeded where that is not all of p, and never waits.
func writeNow(c net.Conn, p []byte) (n int, err error) {
	rc, err := rawOf(c)
	if err != nil {
		return 0, err
	}
	l := looks.Get().(*look)
	defer looks.Put(l)
	l.p = p
	rerr := rc.Write(l.write)
	n, err = l.result()
	switch {
	case rerr != nil: // closed, or a deadline in the past: nothing was written
		return 0, rerr
	case err == syscall.EAGAIN, err == nil && n < len(p):
		return max(0, n), os.ErrDeadlineExceeded
	case err != nil:
		return 0, os.NewSyscallError("write", err)
	}
	return n, nil
}

// result returns what came of a look, and forgets it.
func (l *look) result() (n int, err error) {
	n, err = l.n, l.err
	l.p, l.n, l.err = nil, 0, nil
	return n, err
}

func rawOf(c net.Conn) (syscall.RawConn, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return sc.SyscallConn()
}
