package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// lockFile is locked for as long as a process uses the store (rule 1). It is
// never removed: two processes could then hold locks on two files of one name.
const lockFile = "lock"

// lock takes the exclusive lock of a store's directory, or fails at once with
// an error that wraps ErrLocked. The lock ends with the file's last
// descriptor, so a killed process leaves none; it holds against other callers
// in the same process too.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		err = locked(dir)
	default:
		err = fmt.Errorf("%s cannot be locked, and a store is not opened without: %w", f.Name(), err)
	}
	_ = f.Close()
	return nil, err
}

func locked(dir string) error {
	return fmt.Errorf("%w: %s; stop that process first, or give this one a directory of its own", tokenstore.ErrLocked, dir)
}
