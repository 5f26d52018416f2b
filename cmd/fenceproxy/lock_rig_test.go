package main

import (
	"bufio"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/client/clienttest"
)

// lockPatience is how long a test waits for what should come at once.
const lockPatience = 30 * time.Second

// leaseServer is a lease server in memory and its URL.
func leaseServer(t *testing.T) (*clienttest.Server, string) {
	server := &clienttest.Server{}
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	return server, h.URL
}

// locked is a fenceproxy lock that runs.
type locked struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Reader
	stdin  io.WriteCloser
	stderr *os.File
}

// heedSignals has those that the test starts heed signals that it ignores itself:
// SIGHUP where it is run by nohup, the others in the background of a script.
func heedSignals(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	t.Cleanup(func() { signal.Stop(c) })
}

// startLock runs fenceproxy lock in a process group of its own, as a shell does.
func startLock(t *testing.T, url string, args ...string) *locked {
	t.Helper()
	return startLockTo(t, nil, url, args...)
}

// startLockTo is startLock with another standard error than a file.
func startLockTo(t *testing.T, to *os.File, url string, args ...string) *locked {
	t.Helper()
	binary, err := exec.LookPath("fenceproxy") // TestMain puts it there
	if err != nil {
		t.Fatal(err)
	}
	l := &locked{t: t, cmd: exec.Command(binary, append([]string{"lock"}, args...)...)}
	l.cmd.Env = append(os.Environ(), "FENCEPROXY_SERVER="+url, "GORACE=atexit_sleep_ms=10")
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	l.stderr, l.cmd.Stderr = stderr, stderr
	if to != nil {
		l.cmd.Stderr = to
	}
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	l.cmd.WaitDelay = lockPatience // what the command leaves behind may hold the pipes
	in, err := l.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.stdin = in
	// Not cmd.StdoutPipe, which Wait closes while lines are still to be read.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l.cmd.Stdout = w
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	l.out = bufio.NewReader(r)
	stuck := time.AfterFunc(lockPatience, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })
	t.Cleanup(func() {
		stuck.Stop()
		_ = l.cmd.Process.Kill()
		_ = in.Close() // a command that was left behind and reads ends
		_ = r.Close()
		_ = stderr.Close()
	})
	return l
}

// line is the next line that the command prints.
func (l *locked) line() string {
	l.t.Helper()
	s, err := l.out.ReadString('\n')
	if err != nil {
		l.t.Fatalf("no line from the command: %v\n%s", err, l.said())
	}
	return strings.TrimSuffix(s, "\n")
}

// rest is all that is printed until nobody is left who could print.
func (l *locked) rest() string {
	l.t.Helper()
	b, err := io.ReadAll(l.out)
	if err != nil {
		l.t.Fatalf("something is left that could print: %v\n%s", err, l.said())
	}
	return string(b)
}

// said is what is in standard error so far.
func (l *locked) said() string {
	b, err := os.ReadFile(l.stderr.Name())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (l *locked) signal(s syscall.Signal) {
	if err := l.cmd.Process.Signal(s); err != nil {
		l.t.Error(err)
	}
}

// exits waits for the end, and compares the exit code and what standard error
// says.
func (l *locked) exits(code int, says ...string) {
	l.t.Helper()
	err := l.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		l.t.Fatal(err)
	}
	if got := l.cmd.ProcessState.ExitCode(); got != code {
		l.t.Errorf("exit code %d, want %d\n%s", got, code, l.said())
	}
	for _, s := range says {
		if !strings.Contains(l.said(), s) {
			l.t.Errorf("standard error is %q, want %q", l.said(), s)
		}
	}
	if len(says) == 0 && l.said() != "" {
		l.t.Errorf("standard error is %q, want nothing", l.said())
	}
}
