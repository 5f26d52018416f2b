//go:build amd64 || arm64

package embedded

import (
	"errors"
	"fmt"
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
