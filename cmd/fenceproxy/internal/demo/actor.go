package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// actor is a worker process, seen from the demo.
type actor struct {
	name, token string // token is empty until it has a lease
	cmd         *exec.Cmd
	in          io.WriteCloser
	lines       chan string // what it says; closed at its end
	stderr      *strings.Builder
	// worker is the process of the worker where cmd is the `fenceproxy lock` that
	// runs it; else 0.
	worker int
}

// command is Self with arguments. The variables of fenceproxy's flags are
// taken away: they are meant for another call.
func command(ctx context.Context, self string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, self, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "FENCEPROXY_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}

// cast starts Self as a worker. end must be called.
func cast(ctx context.Context, self, name string, args ...string) (*actor, error) {
	a := &actor{name: name, lines: make(chan string, 16), stderr: &strings.Builder{}}
	a.cmd = command(ctx, self, args...)
	a.cmd.Stderr = a.stderr
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting worker %s: %w", name, err)
	}
	go func() {
		defer close(a.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			a.lines <- s.Text()
		}
	}()
	return a, nil
}

// says waits for the worker's next line, which must begin with word, and
// returns the rest of it.
func (a *actor) says(ctx context.Context, word string) (rest string, err error) {
	select {
	case line, ok := <-a.lines:
		if !ok {
			return "", fmt.Errorf("worker %s ended instead of saying %q%s", a.name, word, a.lastWords())
		}
		first, rest, _ := strings.Cut(line, " ")
		if first != word {
			return "", fmt.Errorf("worker %s says %q instead of %q", a.name, line, word)
		}
		return rest, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// lastWords waits for the end of the process, which has begun.
func (a *actor) lastWords() string {
	_ = a.cmd.Wait()
	if s := strings.TrimSpace(a.stderr.String()); s != "" {
		return ": " + s
	}
	return ""
}

// stop pauses the process, and returns when it is paused: SIGSTOP alone
// returns while its threads may still run for a moment.
func (a *actor) stop() error {
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pausing worker %s: %w", a.name, err)
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(a.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("pausing worker %s: %w", a.name, err)
		case !status.Stopped():
			return fmt.Errorf("worker %s ended instead of pausing", a.name)
		default:
			return nil
		}
	}
}

// exits waits for the end of the process, which must have this code.
func (a *actor) exits(ctx context.Context, want int) error {
	select {
	case line, more := <-a.lines:
		if more {
			return fmt.Errorf("worker %s says %q instead of ending", a.name, line)
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_ = a.cmd.Wait()
	if got := a.cmd.ProcessState.ExitCode(); got != want {
		return fmt.Errorf("the lock of worker %s should exit with %d, and exited with %d: %s", a.name, want, got, strings.TrimSpace(a.stderr.String()))
	}
	return nil
}

// wake ends the pause.
func (a *actor) wake() error {
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("waking worker %s: %w", a.name, err)
	}
	return nil
}

// write sends the worker past the point before its write.
func (a *actor) write() error {
	if _, err := io.WriteString(a.in, "go\n"); err != nil {
		return fmt.Errorf("telling worker %s to go on: %w", a.name, err)
	}
	return nil
}

// end kills the process where it still runs, paused or not, and waits for it.
func (a *actor) end() {
	if a.worker != 0 && a.cmd.ProcessState == nil { // else its lock has seen to it
		_ = syscall.Kill(a.worker, syscall.SIGKILL)
	}
	_ = a.cmd.Process.Kill()
	var drained sync.WaitGroup
	drained.Go(func() {
		for range a.lines {
		}
	})
	drained.Wait() // Wait closes the pipe under the reader otherwise
	_ = a.cmd.Wait()
}
