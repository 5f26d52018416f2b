package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Who kills fenceproxy lock kills the command: nobody would renew its lease.
func TestLockKilled(t *testing.T) {
	_, url := leaseServer(t)
	l := startLock(t, url, "k", "--", "sh", "-c", "echo go; read x")
	l.line()
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := l.rest(); got != "" { // the end of the last one that could print
		t.Error(got)
	}
	l.exits(-1)
}

// In a shell on a terminal the command is a job like any other: it reads what is
// typed, Ctrl-C ends it, Ctrl-Z stops it and us, and fg goes on with both, but
// not once the lease has run out.
func TestLockTerminal(t *testing.T) {
	binary, err := exec.LookPath("fenceproxy") // TestMain puts it there
	if err != nil {
		t.Fatal(err)
	}
	server, url := leaseServer(t)
	s := newShell(t, "FENCEPROXY_SERVER="+url)
	lock := binary + " lock k --grace 0s "

	s.types(lock+"-- sh -c 'read x; echo got-$x'; echo code-$?\n", "")
	for server.Held("k").ID == "" {
		time.Sleep(time.Millisecond)
	}
	s.types("hello\n", "got-hello")
	s.types("", "code-0")
	s.insists("echo the''re\n", "there")

	s.types(lock+"-- sh -c 'echo re''ady; cat'\n", "ready")
	s.types("line\n", "line\r\nline")
	s.types("\x1a", "Stopped")
	s.types("", "\n$ ") // what is typed before belongs to nobody
	s.insists("fg\n", "fenceproxy lock")
	s.types("again\n", "again\r\n") // and cat says it, behind an fg too much
	s.types("", "again")
	s.types("\x03", "$ ")
	s.insists("echo code-$?\n", "code-130")

	s.types(lock+"--ttl 5s -- sh -c 'echo re''ady; cat; echo wro''te on'\n", "ready")
	s.types("line\n", "line\r\nline")
	s.types("\x1a", "Stopped")
	s.types("", "\n$ ") // what is typed before belongs to nobody
	for server.Held("k").ID != "" {
		time.Sleep(time.Millisecond)
	}
	s.insists("fg; echo code-$?\n", "the lease is lost")
	s.types("", "code-76")
	if strings.Contains(s.all, "wrote on") {
		t.Errorf("the command went on without its lease:\n%s", s.all)
	}
}

// Ctrl-Z stops all of the command before it stops us, those too that do not want
// to: nobody would end them when the lease runs out.
func TestLockTerminalStopsAll(t *testing.T) {
	binary, err := exec.LookPath("fenceproxy") // TestMain puts it there
	if err != nil {
		t.Fatal(err)
	}
	server, url := leaseServer(t)
	written := filepath.Join(t.TempDir(), "written")
	s := newShell(t, "FENCEPROXY_SERVER="+url, "WRITTEN="+written)
	s.types(binary+` lock k --grace 0s --ttl 3s -- sh -c '(trap "" TSTP; while :; do echo >>$WRITTEN; sleep 0.01; done) & echo re""ady; cat'`+"\n", "ready")
	s.types("line\n", "line\r\nline")
	s.types("\x1a", "Stopped")
	s.types("", "\n$ ") // what is typed before belongs to nobody
	before := sizeOf(t, written)
	for server.Held("k").ID != "" {
		time.Sleep(time.Millisecond)
	}
	s.insists("fg; echo code-$?\n", "the lease is lost")
	s.types("", "code-76")
	if after := sizeOf(t, written); after != before {
		t.Errorf("%d writes by a command that is said to be stopped, the last ones without a lease", after-before)
	}
}

// Who waits for the lease is stopped by Ctrl-Z like anybody else.
func TestLockTerminalWaiting(t *testing.T) {
	binary, err := exec.LookPath("fenceproxy") // TestMain puts it there
	if err != nil {
		t.Fatal(err)
	}
	server, url := leaseServer(t)
	first := startLock(t, url, "k", "--", "sh", "-c", "echo go; read x")
	first.line()
	s := newShell(t, "FENCEPROXY_SERVER="+url)
	s.types(binary+" lock k -- echo never\n", "")
	for server.Asked(http.MethodPost) < 2 {
		time.Sleep(time.Millisecond)
	}
	s.types("\x1a", "Stopped")
}

// A command that wants the terminal while it is being ended does not stop us:
// it would be there until somebody came to type fg.
func TestLockTerminalLost(t *testing.T) {
	binary, err := exec.LookPath("fenceproxy") // TestMain puts it there
	if err != nil {
		t.Fatal(err)
	}
	server, url := leaseServer(t)
	s := newShell(t, "FENCEPROXY_SERVER="+url)
	s.types(binary+` lock k --grace 500ms --ttl 3s -- sh -c 'trap "read x </dev/tty" TERM; echo re""ady; while :; do sleep 0.01; done' &`+"\n", "ready")
	server.Lose("k")
	s.types("wait $!; echo code-$?\n", "SIGKILL")
	s.types("", "code-76")
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// shell is an interactive bash on a terminal of its own.
type shell struct {
	t         *testing.T
	tty       *os.File
	all, seen string // seen is what no type has waited for yet
}

func newShell(t *testing.T, env ...string) *shell {
	t.Helper()
	heedSignals(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatalf("%v: this test needs a shell with jobs", err)
	}
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	control(t, tty, func(fd int) error {
		n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	})
	other, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	cmd := exec.Command(bash, "--norc", "-i")
	cmd.Env = append(append(os.Environ(), "PS1=$ ", "TERM=dumb", "GORACE=atexit_sleep_ms=10"), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = other, other, other
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, tty: tty}
	t.Cleanup(func() {
		_ = tty.Close() // hangs up
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.types("", "$ ")
	return s
}

// control calls do with the descriptor, which Fd would make a blocking one.
func control(t *testing.T, f *os.File, do func(fd int) error) {
	t.Helper()
	conn, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Control(func(fd uintptr) { err = do(int(fd)) }), err); err != nil {
		t.Fatal(err)
	}
}

// types types, and waits for what is then to be seen.
func (s *shell) types(text, want string) {
	s.t.Helper()
	if err := s.try(text, want, lockPatience); err != nil {
		s.t.Fatalf("typed %q and did not see %q: %v\n%s", text, want, err, s.all)
	}
}

// insists types more than once: bash was seen not to take what came just behind
// the prompt with which it takes the terminal back, with nothing but a cat stopped
// before it. Either it was lost, or it is there once more is typed: what comes next
// may find one line too many. It is no way to ask for an exit code of 0, which is
// what the second time finds in any case.
func (s *shell) insists(text, want string) {
	s.t.Helper()
	for range 3 {
		if s.try(text, want, lockPatience/3) == nil {
			return
		}
	}
	s.t.Fatalf("typed %q three times and did not see %q\n%s", text, want, s.all)
}

func (s *shell) try(text, want string, patience time.Duration) error {
	if _, err := s.tty.WriteString(text); err != nil {
		return err
	}
	_ = s.tty.SetReadDeadline(time.Now().Add(patience))
	for b := make([]byte, 4096); ; {
		if _, rest, ok := strings.Cut(s.seen, want); ok {
			if want != "" {
				s.seen = rest
			}
			return nil
		}
		n, err := s.tty.Read(b)
		if err != nil {
			return err
		}
		s.seen += string(b[:n])
		s.all += string(b[:n])
	}
}
