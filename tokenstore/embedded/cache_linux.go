package embedded

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetCache asks the kernel to drop what it has cached of a file.
func forgetCache(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
