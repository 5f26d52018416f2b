package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// listenUnix makes the socket's file, with its mode from its first moment on.
// What a process left behind that is no more is replaced.
func listenUnix(path string, mode os.FileMode) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The umask is the whole process's: listeners are opened before anything
	// else makes files. Setting the mode afterwards would leave a moment in
	// which others can connect.
	before := syscall.Umask(int(^mode.Perm() & fs.ModePerm))
	l, err := net.Listen("unix", path)
	syscall.Umask(before)
	if err != nil {
		return nil, err
	}
	made, err := os.Lstat(path)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	u := l.(*net.UnixListener)
	u.SetUnlinkOnClose(false)
	return &unixListener{UnixListener: u, path: path, made: made}, nil
}

// removeStale removes a socket that nobody listens on any more. Anything else
// at the path is left alone.
func removeStale(path string) error {
	found, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if found.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there already and is no socket: remove it, or choose another path", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // in doubt it is in use
		return fmt.Errorf("listen unix %s: %w", path, syscall.EADDRINUSE)
	}
	return os.Remove(path)
}

// unixListener removes its file at the end, unless another process has put its
// own there.
type unixListener struct {
	*net.UnixListener
	path   string
	made   os.FileInfo
	remove sync.Once
}

func (l *unixListener) Close() error {
	l.remove.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.made) {
			_ = os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}
