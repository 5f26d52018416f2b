// Package redistest starts a Redis of its own for a test. It syncs every write
// before it answers, so that a kill loses nothing; a failover would (X11).
package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// Server is a Redis with its data. It is not safe for concurrent use.
type Server struct {
	*servertest.Server
	program string
	args    []string
}

// New starts a server, with more arguments than it needs.
func New(args ...string) (*Server, error) {
	program, err := servertest.LookPath("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	s := &Server{program: program, args: args}
	if s.Server, err = servertest.New(servertest.Program{Name: "redis-server", Command: s.command, Answers: s.answers}); err != nil {
		return nil, err
	}
	if err := s.StartFree(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Setting is what stands below store for a proxy that reaches it at address.
func (s *Server) Setting(address string) string {
	return fmt.Sprintf("redis: {url: %q, accept_lost_writes: true}", "redis://"+address)
}

func (s *Server) command() *exec.Cmd {
	_, port, _ := net.SplitHostPort(s.Address())
	return exec.Command(s.program, append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", s.Dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", ""}, s.args...)...)
}

// answers asks whether its data is still being loaded, and whether it is who
// answers at the address.
func (s *Server) answers(ctx context.Context) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address())
	if err != nil {
		return err
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(end)
	}
	if _, err := fmt.Fprint(c, "CONFIG GET dir\r\nPING\r\n"); err != nil {
		return err
	}
	var said strings.Builder
	for lines := bufio.NewScanner(c); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if lines.Text() == "+PONG" {
			if strings.Contains(said.String(), s.Dir) {
				return nil
			}
			break
		}
		if strings.HasPrefix(lines.Text(), "-") {
			break
		}
	}
	return fmt.Errorf("%s says %q", s.Address(), said.String())
}
