//go:build !linux

package embedded

import "os"

// fdatasync brings f to the disk.
func fdatasync(f *os.File) error { return f.Sync() }
