//go:build amd64 || arm64

package embedded

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// enter returns what a call is about to do, nil where it does nothing to the
// store.
func (r *recording) enter(tid int, i syscallInfo) *callEntry {
	e := &callEntry{nr: i.nr, fd: int(int32(i.args[0]))}
	file, tracked := r.fds[e.fd]
	switch i.nr {
	case unix.SYS_OPENAT:
		e.path, e.flags = r.path(tid, i.args[1]), i.args[2]
		e.op = &op{kind: opCreate, name: e.path, began: r.step}
		return e.where(e.path != "")
	case unix.SYS_UNLINKAT:
		e.path = r.path(tid, i.args[1])
		e.op = &op{kind: opRemove, file: theDirectory, name: e.path, began: r.step}
		return e.where(e.path != "").kept(r)
	case unix.SYS_RENAMEAT:
		e.path, e.to = r.path(tid, i.args[1]), r.path(tid, i.args[3])
		e.op = &op{kind: opRename, file: theDirectory, name: e.path, to: e.to, began: r.step}
		return e.where(e.path != "").kept(r)
	case unix.SYS_CLOSE:
		delete(r.fds, e.fd) // the number may be given again before this returns
		return nil
	case unix.SYS_PWRITE64:
		e.op = &op{kind: opWrite, file: file, off: int64(i.args[3]), data: r.read(tid, i.args[1], i.args[2]), began: r.step}
	case unix.SYS_FTRUNCATE:
		e.op = &op{kind: opTruncate, file: file, off: int64(i.args[1]), began: r.step}
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		e.op = &op{kind: opSync, file: file, began: r.step}
	case unix.SYS_WRITE:
		if e.fd == 1 {
			e.op = &op{kind: opSay, data: r.read(tid, i.args[1], i.args[2]), began: r.step}
			return e.kept(r)
		}
		fallthrough
	case unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_FALLOCATE, unix.SYS_COPY_FILE_RANGE, unix.SYS_DUP, unix.SYS_DUP3:
		if tracked {
			r.faults = append(r.faults, fmt.Errorf("system call %d on %d is not understood", i.nr, file))
		}
		return nil
	default:
		return nil
	}
	return e.where(tracked).kept(r)
}

// where is e where ok, else nil.
func (e *callEntry) where(ok bool) *callEntry {
	if !ok {
		return nil
	}
	return e
}

// kept notes the operation from its beginning on: a process that is killed
// never comes back from it.
func (e *callEntry) kept(r *recording) *callEntry {
	if e != nil {
		r.ops = append(r.ops, e.op)
	}
	return e
}

// leave takes in what a call has done.
func (r *recording) leave(e *callEntry, result int64) {
	o := e.op
	o.ended = r.step
	if result < 0 {
		r.ops = slices.DeleteFunc(r.ops, func(x *op) bool { return x == o })
		return
	}
	switch o.kind {
	case opCreate:
		fd := int(result)
		if r.fds[fd] = theDirectory; e.path == "." {
			return
		}
		file, there := r.names[e.path]
		if !there {
			file = r.files
			r.files++
			r.names[e.path] = file
			o.file, o.off = theDirectory, int64(file)
			r.ops = append(r.ops, o)
		} else if e.flags&unix.O_TRUNC != 0 {
			r.faults = append(r.faults, fmt.Errorf("%s is emptied as it is opened, which is not understood", e.path))
		}
		r.fds[fd] = file
	case opRename:
		r.names[e.to] = r.names[e.path]
		delete(r.names, e.path)
	case opRemove:
		delete(r.names, e.path)
	case opWrite:
		if result != int64(len(o.data)) {
			r.faults = append(r.faults, fmt.Errorf("%d of %d bytes were written", result, len(o.data)))
		}
	}
}

// path returns the name of a file in the store's directory, "." for that
// itself, and "" for all others and the lock.
func (r *recording) path(tid int, addr uint64) string {
	// Not over the end of a page: the next one need not be there.
	b := r.read(tid, addr, min(4096-addr%4096, 1024))
	if n := slices.Index(b, 0); n >= 0 {
		b = b[:n]
	} else {
		b = append(b, r.read(tid, addr+uint64(len(b)), 512)...)
		b = b[:max(0, slices.Index(b, 0))]
	}
	name, err := filepath.Rel(r.dir, string(b))
	if err != nil || strings.ContainsRune(name, filepath.Separator) || name == ".." || name == lockFile {
		return ""
	}
	return name
}

// read reads the memory of the traced process.
func (r *recording) read(tid int, addr, n uint64) []byte {
	b := make([]byte, n)
	if n == 0 {
		return b
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(int(n))
	got, err := unix.ProcessVMReadv(tid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: int(n)}}, 0)
	if err == nil && got != int(n) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		r.faults = append(r.faults, fmt.Errorf("the memory of the traced process: %w", err))
	}
	return b
}
