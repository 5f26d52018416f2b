package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A start that fails at a sync leaves nothing behind that the kernel takes for
// written and the disk may not have: the next start would read it there, sync
// nothing, and tell of raises that a power cut takes back (story A2).
func TestFailedStartForgetsCache(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	acquire(t, s, mark("k", 5))
	closed(t, s, false)
	log := filepath.Join(dir, logName(1))
	if !cached(t, log) || !drops(t, dir) {
		t.Skip("this file system keeps no cache, or none that could be dropped")
	}
	if s, err := Open(Options{Path: dir, hooks: hooks{afterSync: func(error) error { return syscall.EIO }}}); !errors.Is(err, syscall.EIO) {
		if err == nil {
			closed(t, s, false)
		}
		t.Fatalf("Open: %v", err)
	}
	for _, path := range []string{log, filepath.Join(dir, storeFile)} {
		if cached(t, path) {
			t.Errorf("%s is still in the kernel's cache", filepath.Base(path))
		}
	}
	wantHighest(t, open(t, dir), "k", 5)
}

// drops reports whether forgetCache does what it says.
func drops(t *testing.T, dir string) bool {
	t.Helper()
	path := filepath.Join(dir, "probe")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer os.Remove(path)
	if _, err := f.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	forgetCache(path)
	return !cached(t, path)
}

// cached reports whether any page of a file is in the kernel's cache.
func cached(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	pages := make([]byte, (len(m)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range pages {
		if p&1 != 0 {
			return true
		}
	}
	return false
}
