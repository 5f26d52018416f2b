// Package etcdtest starts an etcd of its own for a test, of one member or more,
// on free loopback ports, in private directories, stopped by its process id.
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
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// patience is how long a start may take.
const patience = 30 * time.Second

// Server is a member with its data. It is not safe for concurrent use, but for
// Prefix.
type Server struct {
	// Endpoint is its URL, the same after each start.
	Endpoint string

	program  string
	dir      string
	name     string
	peer     string
	cluster  string // names and peers of all members
	args     []string
	cmd      *exec.Cmd
	ended    chan struct{} // closed when cmd is over
	prefixes atomic.Int64
}

// New starts a server of one member, with more arguments than it needs.
func New(args ...string) (*Server, error) {
	members, err := NewCluster(1, args...)
	if err != nil {
		return nil, err
	}
	return members[0], nil
}

// NewCluster starts a server of n members.
func NewCluster(n int, args ...string) (members []*Server, err error) {
	program, err := exec.LookPath("etcd")
	if err != nil {
		return nil, fmt.Errorf("run make deps, or on Debian apt-get install etcd-server: %w", err)
	}
	for range 5 { // another program may take a port before etcd does
		if members, err = tryCluster(program, n, args); err == nil {
			return members, nil
		}
		for _, s := range members {
			err = errors.Join(err, s.Close())
		}
	}
	return nil, err
}

func tryCluster(program string, n int, args []string) (members []*Server, err error) {
	var cluster []string
	for i := range n {
		dir, err := os.MkdirTemp("", "fenceproxy-etcd-")
		if err != nil {
			return members, err
		}
		s := &Server{program: program, dir: dir, name: fmt.Sprint("member-", i), args: args}
		members = append(members, s)
		for _, url := range []*string{&s.Endpoint, &s.peer} {
			addr, err := freePort()
			if err != nil {
				return members, err
			}
			*url = "http://" + addr
		}
		cluster = append(cluster, s.name+"="+s.peer)
	}
	for _, s := range members {
		s.cluster = strings.Join(cluster, ",")
		if err := s.spawn(); err != nil {
			return members, err
		}
	}
	for _, s := range members {
		if err := s.ready(); err != nil {
			return members, err
		}
	}
	return members, nil
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
	if err := s.spawn(); err != nil {
		return err
	}
	return s.ready()
}

func (s *Server) spawn() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(s.program, append([]string{
		"--name", s.name, "--data-dir", filepath.Join(s.dir, "data"),
		"--listen-client-urls", s.Endpoint, "--advertise-client-urls", s.Endpoint,
		"--listen-peer-urls", s.peer, "--initial-advertise-peer-urls", s.peer, "--initial-cluster", s.cluster,
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
	return nil
}

func (s *Server) ready() error {
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
	for end := time.Now().Add(patience); ; {
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
	return clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, DialTimeout: patience, Logger: zap.NewNop()})
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
