package servertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// LookPath finds a program, also where Debian puts it and an ordinary user's
// PATH does not look.
func LookPath(name, pkg string) (string, error) {
	for _, candidate := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not here, and this test needs the real one: run make deps, or on Debian apt-get install %s", name, pkg)
}

// Find is LookPath for a test, which fails without the program: nothing would
// be shown.
func Find(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := LookPath(name, pkg)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Run runs a server at n free addresses until the test ends, and returns when it
// listens to all of them.
func Run(t testing.TB, n int, command func(addrs []string) *exec.Cmd) (addrs []string) {
	t.Helper()
	err := OnFree(n, func(free []string) error {
		t.Helper()
		addrs = free
		cmd := command(free)
		var s *Server
		s, err := New(Program{Name: filepath.Base(cmd.Path), Command: func() *exec.Cmd { return cmd }, Answers: func(ctx context.Context) error {
			return s.process.listens(ctx, free)
		}})
		if err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return errors.Join(err, s.Close())
		}
		s.CloseAfter(t)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return addrs
}

// Says runs a server until the test ends, and returns the first line that it
// prints, by which it says where it listens.
func Says(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	name := cmd.String()
	cmd.Stdout, cmd.Stderr = w, log
	p, err := Start(cmd)
	_, _ = w.Close(), log.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		_ = r.Close()
		if b, err := os.ReadFile(log.Name()); t.Failed() && len(b) > 0 {
			t.Logf("%s says (%v): %s", name, err, b)
		}
	})
	_ = r.SetReadDeadline(time.Now().Add(Patience))
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("%s does not say where it listens: %v", name, err)
	}
	return line
}
