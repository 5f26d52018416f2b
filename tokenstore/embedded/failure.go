package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strings"
	"syscall"
)

// errFailed is what every call of a store gets whose files may not say what was
// told of it.
var errFailed = errors.New("a write to the store's files failed in a way that leaves its state unknown; the process must end and start again")

// spaceErrors are what a file system answers when it has no room. Nothing is
// written then, and the next write may go well.
var spaceErrors = []syscall.Errno{syscall.ENOSPC, syscall.EFBIG, syscall.EDQUOT}

// passing reports whether a failed commit, or a failed write to a log, failed
// for want of space before anything that counts was written, so that the store
// can go on. The answer in
// doubt is no: after a failed sync the kernel forgets which pages never
// reached the disk, and a second sync would succeed without them.
//
// bbolt's own errors tell it: a write fails with a *fs.PathError whose Op is
// "write", growing the file with a text of its own, and a failed sync with a
// bare errno on Linux and Op "sync" elsewhere.
func passing(err error) bool {
	var sync *syncError
	var left *leftError
	if errors.As(err, &sync) || errors.As(err, &left) {
		return false // though it may wrap a want of space
	}
	if rest, ok := strings.CutPrefix(err.Error(), "file resize error: "); ok {
		for _, errno := range spaceErrors {
			if strings.HasSuffix(rest, ": "+errno.Error()) {
				return true
			}
		}
		return false
	}
	var write *fs.PathError
	if !errors.As(err, &write) || write.Op != "write" {
		return false
	}
	for _, errno := range spaceErrors {
		if errors.Is(write.Err, errno) {
			return true
		}
	}
	return false
}

// panicError is what bbolt said when it panicked, or the fault of the memory
// that maps the file.
type panicError struct{ cause any }

func (e *panicError) Error() string { return fmt.Sprintf("the store's file is damaged: %v", e.cause) }

// guard turns a panic of f into a *panicError. bbolt panics on pages that make
// no sense; a page that cannot be read, or that lies behind the end of a file
// that was cut, is a memory fault.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
		}
	}()
	return f()
}
