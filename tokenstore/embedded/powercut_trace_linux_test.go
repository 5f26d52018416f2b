//go:build amd64 || arm64

package embedded

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// opKind is what a system call does to the files of a store.
type opKind uint8

const (
	opSay opKind = iota // the process tells something: no call on a file
	opWrite
	opTruncate
	opSync
	opCreate
	opRename
	opRemove
)

// theDirectory stands for the store's directory where a file is meant.
const theDirectory = -1

// op is one system call of the traced process. Another thread's may run at the
// same time: nobody knows when, between began and ended, it took effect.
type op struct {
	kind         opKind
	file         int // a number of its own for each file ever made
	name, to     string
	off          int64
	data         []byte
	began, ended int // in steps of the recording
	synced       int // the step in which a sync of its file has ended, never if 0
}

// recording is everything that processes did to a store's directory, in the
// order in which the kernel was asked. The processes are real and traced: what
// bbolt and the Go library ask for is seen, and not what they are believed to.
type recording struct {
	dir    string
	base   map[int][]byte // files that were there before, on the disk
	first  map[string]int // their names
	before said           // by processes of before
	ops    []*op
	step   int
	// killAt, where it is not 0, kills the process when it asks for the sync of
	// that number, of files whose names begin with killOf, and no other thread is
	// at the files.
	killAt int
	killOf string

	names   map[string]int
	files   int
	fds     map[int]int        // of the process that runs: which file
	pending map[int]*callEntry // by thread: the call that has not returned
	faults  []error
}

// callEntry is a call that the kernel has not answered yet.
type callEntry struct {
	nr, flags uint64
	fd        int
	path, to  string
	op        *op
}

// newRecording begins with the files of dir, all of them on the disk.
func newRecording(t *testing.T, dir string) *recording {
	t.Helper()
	r := &recording{dir: dir, base: map[int][]byte{}, first: map[string]int{}}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if r.base[r.files], err = os.ReadFile(filepath.Join(dir, f.Name())); err != nil {
			t.Fatal(err)
		}
		r.first[f.Name()] = r.files
		r.files++
	}
	r.names = maps.Clone(r.first)
	return r
}

// run runs the test binary in a role, to its end, and records it.
func (r *recording) run(t *testing.T, role string) {
	t.Helper()
	ended := make(chan error)
	go func() {
		// A tracer is a thread. It ends with this goroutine, since it is not
		// unlocked.
		runtime.LockOSThread()
		ended <- r.trace(t, role)
	}()
	if err := <-ended; errors.Is(err, syscall.EPERM) {
		t.Skipf("a process may not be traced here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	r.finish(t)
}

func (r *recording) trace(t *testing.T, role string) error {
	r.fds, r.pending = map[int]int{}, map[int]*callEntry{}
	cmd := child(t, role, r.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	seen := map[int]bool{}
	for {
		var status syscall.WaitStatus
		tid, err := syscall.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for the traced process: %w", err)
		}
		signal := 0
		switch {
		case !status.Stopped():
			if delete(r.pending, tid); tid != pid {
				continue
			}
			if status.Exited() && status.ExitStatus() != 0 {
				return fmt.Errorf("the traced process ended with status %d", status.ExitStatus())
			}
			return nil
		case !seen[tid]: // stopped because it is new
			if seen[tid] = true; tid == pid {
				err = syscall.PtraceSetOptions(pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACEEXEC|unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL)
			}
		case status.StopSignal() == syscall.SIGTRAP|0x80:
			if r.call(tid) {
				err = syscall.Kill(pid, syscall.SIGKILL)
			}
		case status.StopSignal() != syscall.SIGTRAP:
			signal = int(status.StopSignal())
		}
		if err != nil {
			return err
		}
		if err := syscall.PtraceSyscall(tid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
}

// syscallInfo is the kernel's struct ptrace_syscall_info.
type syscallInfo struct {
	op     uint8
	_      [3]byte
	arch   uint32
	ip, sp uint64
	nr     uint64 // what the call returned, when it ends
	args   [6]uint64
	_      uint64
}

// call looks at a thread that enters a call or comes back from one. kill says
// that the process is to end here.
func (r *recording) call(tid int) (kill bool) {
	var i syscallInfo
	_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(i), uintptr(unsafe.Pointer(&i)), 0, 0)
	if errno != 0 {
		return false // killed meanwhile
	}
	r.step++
	if i.op == unix.PTRACE_SYSCALL_INFO_ENTRY {
		e := r.enter(tid, i)
		if e == nil {
			return false
		}
		r.pending[tid] = e
		return r.killAt > 0 && e.op.kind == opSync && len(r.pending) == 1 && r.countdown(e.op.file)
	}
	if e := r.pending[tid]; e != nil && i.op == unix.PTRACE_SYSCALL_INFO_EXIT {
		delete(r.pending, tid)
		r.leave(e, int64(i.nr))
	}
	return false
}

func (r *recording) countdown(file int) bool {
	for name, f := range r.names {
		if f == file && strings.HasPrefix(name, r.killOf) {
			r.killAt--
			return r.killAt == 0
		}
	}
	return false
}

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

// finish orders what was recorded, notes what each sync has brought to the
// disk, and makes sure that nothing was missed: what was recorded, all of it
// kept, is what the directory holds.
func (r *recording) finish(t *testing.T) {
	t.Helper()
	if err := errors.Join(r.faults...); err != nil {
		t.Fatalf("the recording shows nothing: %v", err)
	}
	r.ops = slices.DeleteFunc(r.ops, func(o *op) bool { return o.kind == opSync && o.ended == 0 }) // killed before it began
	for _, o := range r.ops {
		if o.ended == 0 && o.kind != opSay {
			t.Fatalf("the process ended in the middle of %+v: this recording shows nothing", o)
		}
	}
	r.step++
	slices.SortStableFunc(r.ops, func(a, b *op) int { return a.began - b.began })
	for i, o := range r.ops {
		for _, s := range r.ops[i+1:] {
			if o.synced == 0 && s.kind == opSync && s.file == o.file && s.began > o.ended {
				o.synced = s.ended
			}
		}
	}
	got := map[string][]byte{}
	files, err := os.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() == lockFile {
			continue
		}
		if got[f.Name()], err = os.ReadFile(filepath.Join(r.dir, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	want := r.image(r.step, keepAll{})
	if !maps.EqualFunc(got, want, func(a, b []byte) bool { return string(a) == string(b) }) {
		t.Fatal("the files are not what was recorded: this recording shows nothing")
	}
}
