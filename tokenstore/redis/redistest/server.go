// Package redistest starts a Redis of its own for a test, on a free loopback port,
// in a private directory, stopped by its process id. It syncs every write before
// it answers, so that a kill loses nothing; a failover would (X11).
package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// patience is how long a start may take.
const patience = 30 * time.Second

// Server is a Redis with its data. It is not safe for concurrent use.
type Server struct {
	// Address is where it listens, the same after each start.
	Address string

	program string
	dir     string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd is over
}

// New starts a server.
func New() (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("run make deps, or on Debian apt-get install redis-server: %w", err)
	}
	dir, err := os.MkdirTemp("", "fenceproxy-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{program: program, dir: dir}
	for range 5 { // another program may take the port before Redis does
		// Below those that outgoing connections get: it is started there again.
		s.Address = fmt.Sprintf("127.0.0.1:%d", 12_000+rand.IntN(18_000))
		if err = s.Start(); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(err, s.Close())
}

// Setting is what stands below store for a proxy that reaches it at address.
func Setting(address string) string {
	return fmt.Sprintf("redis: {url: %q, accept_lost_writes: true}", "redis://"+address)
}

// Start starts it, over what is there, and waits until it answers.
func (s *Server) Start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	_, port, _ := net.SplitHostPort(s.Address)
	s.cmd = exec.Command(s.program, "--bind", "127.0.0.1", "--port", port, "--dir", s.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(s.cmd, s.ended)
	if err := s.answers(); err != nil {
		s.Kill()
		return fmt.Errorf("redis-server did not start: %w\n%s", err, s.Log())
	}
	return nil
}

// answers waits until it has read its data, and is who answers at the address.
func (s *Server) answers() error {
	for end := time.Now().Add(patience); ; {
		err := s.ask()
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return errors.New("it has ended")
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// ask reads its process id, and whether its data is still being loaded.
func (s *Server) ask() error {
	c, err := net.DialTimeout("tcp", s.Address, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := fmt.Fprint(c, "CONFIG GET dir\r\nPING\r\n"); err != nil {
		return err
	}
	var said strings.Builder
	for lines := bufio.NewScanner(c); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if lines.Text() == "+PONG" {
			if strings.Contains(said.String(), s.dir) {
				return nil
			}
			break
		}
		if strings.HasPrefix(lines.Text(), "-") {
			break
		}
	}
	return fmt.Errorf("%s says %q", s.Address, said.String())
}

// Kill ends it at once, as a crash does.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// Log is what it has printed.
func (s *Server) Log() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(b)
}

// Close ends it and removes its data.
func (s *Server) Close() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}
