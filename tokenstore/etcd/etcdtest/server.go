// Package etcdtest starts an etcd of its own for a test: one member, on free
// loopback ports, in a private directory, stopped by its process id.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// ready is how long a start may take.
const ready = 30 * time.Second

// Server is an etcd with its data. It is not safe for concurrent use, but for
// Prefix.
type Server struct {
	// Endpoint is its URL, the same after each start.
	Endpoint string

	program  string
	dir      string
	peer     string
	args     []string
	cmd      *exec.Cmd
	ended    chan struct{} // closed when cmd is over
	prefixes atomic.Int64
}

// New starts a server with more arguments than it needs.
func New(args ...string) (*Server, error) {
	program, err := exec.LookPath("etcd")
	if err != nil {
		return nil, fmt.Errorf("run make deps, or on Debian apt-get install etcd-server: %w", err)
	}
	dir, err := os.MkdirTemp("", "fenceproxy-etcd-")
	if err != nil {
		return nil, err
	}
	s := &Server{program: program, dir: dir, args: args}
	for range 5 { // another program may take a port before etcd does
		var client, peer string
		if client, err = freePort(); err != nil {
			break
		}
		if peer, err = freePort(); err != nil {
			break
		}
		s.Endpoint, s.peer = "http://"+client, "http://"+peer
		if err = s.Start(); err == nil {
			return s, nil
		}
		_ = os.RemoveAll(filepath.Join(dir, "data"))
	}
	return nil, errors.Join(err, s.Close())
}

// freePort returns an address below those that outgoing connections get.
func freePort() (string, error) {
	const low, high = 12_000, 30_000
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", low+rand.IntN(high-low))
		if ln, err := net.Listen("tcp", addr); err == nil {
			return addr, ln.Close()
		}
	}
	return "", errors.New("no free port on loopback")
}

// Start starts it, over what is there, and waits until it answers.
func (s *Server) Start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(s.program, append([]string{
		"--name", "one", "--data-dir", filepath.Join(s.dir, "data"),
		"--listen-client-urls", s.Endpoint, "--advertise-client-urls", s.Endpoint,
		"--listen-peer-urls", s.peer, "--initial-advertise-peer-urls", s.peer, "--initial-cluster", "one=" + s.peer,
		"--logger", "zap", "--log-level", "warn",
	}, s.args...)...)
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
		return fmt.Errorf("etcd did not start: %w\n%s", err, s.Log())
	}
	return nil
}

// answers waits until etcd has a leader, without which it answers no read.
func (s *Server) answers() error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	for end := time.Now().Add(ready); ; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := client.Get(ctx, "any")
		cancel()
		if err == nil || errors.Is(err, rpctypes.ErrUserEmpty) {
			return nil
		}
		select {
		case <-s.ended:
			return errors.New("it has ended")
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// Client returns a client of etcd's own, for what a test does behind the
// store's back.
func (s *Server) Client() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, DialTimeout: ready, Logger: zap.NewNop()})
}

// Prefix returns a place for one more store.
func (s *Server) Prefix() string { return fmt.Sprintf("/store-%d/", s.prefixes.Add(1)) }

// Kill ends it at once, as a crash does.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends it as an operator does.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

func (s *Server) end(sig syscall.Signal) {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	<-s.ended
}

// Pause makes it stand still until Resume.
func (s *Server) Pause() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a pause.
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

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
