package servertest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Program is how a kind of server is run.
type Program struct {
	Name    string           // in errors
	Command func() *exec.Cmd // one more life; its Err is heeded
	// Answers asks once whether it serves, and whether it is this one.
	Answers func(context.Context) error
	// Crash and Stop are what ends it: SIGKILL and SIGTERM where they are 0.
	Crash, Stop syscall.Signal
}

// Server is a server with its files. It is not safe for concurrent use.
type Server struct {
	// Dir is where it has them. Close removes it.
	Dir string

	program Program
	address string
	process *Process
}

// New makes a server that Start starts.
func New(p Program) (*Server, error) {
	dir, err := os.MkdirTemp("", "fenceproxy-"+p.Name+"-")
	if err != nil {
		return nil, err
	}
	return &Server{Dir: dir, program: p}, nil
}

// Address is where it listens, the same after each start, once StartFree has found
// it one.
func (s *Server) Address() string { return s.address }

// StartFree starts it for the first time, at a free address.
func (s *Server) StartFree() error {
	return OnFree(1, func(addrs []string) error {
		s.address = addrs[0]
		return s.Start()
	})
}

// Start starts it, over what is there, and waits until it answers.
func (s *Server) Start() error {
	if err := s.Launch(); err != nil {
		return err
	}
	return s.Ready()
}

// Launch is the first half of Start.
func (s *Server) Launch() error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.program.Command()
	cmd.Stdout, cmd.Stderr = log, log
	p, err := Start(cmd)
	if err != nil {
		return err
	}
	s.process = p
	return nil
}

// Ready is the second half of Start.
func (s *Server) Ready() error {
	if err := s.process.Until(s.program.Answers); err != nil {
		s.Kill()
		return fmt.Errorf("%s did not start: %w\n%s", s.program.Name, err, s.Log())
	}
	return nil
}

// Kill ends it at once, as a crash does.
func (s *Server) Kill() { s.end(cmp.Or(s.program.Crash, syscall.SIGKILL)) }

// Stop ends it as an operator does.
func (s *Server) Stop() { s.end(cmp.Or(s.program.Stop, syscall.SIGTERM)) }

func (s *Server) end(with syscall.Signal) {
	if s.process != nil {
		s.process.End(with)
	}
}

// Pause makes it stand still until Resume, or until its end.
func (s *Server) Pause() { s.process.Signal(syscall.SIGSTOP) }

// Resume ends a pause.
func (s *Server) Resume() { s.process.Signal(syscall.SIGCONT) }

func (s *Server) log() string { return filepath.Join(s.Dir, "log") }

// Log is what it has printed, in all its lives.
func (s *Server) Log() string {
	b, _ := os.ReadFile(s.log())
	return string(b)
}

// Close ends it and removes its files.
func (s *Server) Close() error {
	s.Kill()
	return os.RemoveAll(s.Dir)
}

// CloseAfter has it closed when the test ends, which shows its log where it has
// failed.
func (s *Server) CloseAfter(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			log := s.Log()
			t.Logf("%s's log ends with:\n%s", s.program.Name, log[max(0, len(log)-4<<10):])
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
