// Package etcdtest starts an etcd of its own for a test, of one member or more.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// Server is a member with its data. It is not safe for concurrent use, but for
// Prefix.
type Server struct {
	*servertest.Server
	// Endpoint is its URL, the same after each start.
	Endpoint string

	program  string
	name     string
	peer     string
	cluster  string // names and peers of all members
	args     []string
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
	program, err := servertest.LookPath("etcd", "etcd-server")
	if err != nil {
		return nil, err
	}
	err = servertest.OnFree(2*n, func(addrs []string) error {
		if members, err = newMembers(program, addrs, args); err == nil {
			err = start(members)
		}
		if err != nil {
			for _, s := range members {
				err = errors.Join(err, s.Close())
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return members, nil
}

// newMembers makes a member of each two addresses.
func newMembers(program string, addrs, args []string) (members []*Server, err error) {
	var cluster []string
	for ; len(addrs) > 0; addrs = addrs[2:] {
		s := &Server{Endpoint: "http://" + addrs[0], program: program,
			name: fmt.Sprint("member-", len(members)), peer: "http://" + addrs[1], args: args}
		if s.Server, err = servertest.New(servertest.Program{Name: "etcd", Command: s.command, Answers: s.answers}); err != nil {
			return members, err
		}
		members = append(members, s)
		cluster = append(cluster, s.name+"="+s.peer)
	}
	for _, s := range members {
		s.cluster = strings.Join(cluster, ",")
	}
	return members, nil
}

// start starts all before it waits for one: none answers alone.
func start(members []*Server) error {
	for _, s := range members {
		if err := s.Launch(); err != nil {
			return err
		}
	}
	for _, s := range members {
		if err := s.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// Address is where it listens.
func (s *Server) Address() string { return strings.TrimPrefix(s.Endpoint, "http://") }

// Setting is what stands below store for a proxy that reaches it at address.
func (s *Server) Setting(address string) string {
	return fmt.Sprintf("etcd: {endpoints: [%q]}", "http://"+address)
}

func (s *Server) command() *exec.Cmd {
	return exec.Command(s.program, append([]string{
		"--name", s.name, "--data-dir", filepath.Join(s.Dir, "data"),
		"--listen-client-urls", s.Endpoint, "--advertise-client-urls", s.Endpoint,
		"--listen-peer-urls", s.peer, "--initial-advertise-peer-urls", s.peer, "--initial-cluster", s.cluster,
		"--logger", "zap", "--log-level", "warn",
	}, s.args...)...)
}

// answers asks whether etcd has a leader, without which it answers no read.
func (s *Server) answers(ctx context.Context) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err = client.Get(ctx, "any"); errors.Is(err, rpctypes.ErrUserEmpty) {
		return nil
	}
	return err
}

// Client returns a client of etcd's own, for what a test does behind the
// store's back.
func (s *Server) Client() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, DialTimeout: servertest.Patience, Logger: zap.NewNop()})
}

// Prefix returns a place for one more store.
func (s *Server) Prefix() string { return fmt.Sprintf("/store-%d/", s.prefixes.Add(1)) }
