package embedded

import (
	"errors"
	"os"
	"syscall"
)

// fdatasync brings what was written of f to the disk, and of its inode what is
// needed to read it again: the size.
func fdatasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
