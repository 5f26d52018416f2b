// Package postgrestest starts a PostgreSQL of its own for a test. It does not
// run as root, and gives its rights away where the test does.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// Server is a PostgreSQL with its data. It is not safe for concurrent use, but
// for Prefix.
type Server struct {
	*servertest.Server
	settings []string
	prefixes atomic.Int64
}

// New makes a database and starts a server with more settings than it needs.
func New(settings ...string) (*Server, error) {
	return newServer(settings, func(data string) error {
		return run("initdb", "-D", data, "-U", "fenceproxy", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	})
}

// Standby starts a hot standby of it.
func (s *Server) Standby() (*Server, error) {
	return newServer(nil, func(data string) error {
		return run("pg_basebackup", "-d", s.URL(s.Address()), "-D", data, "-R", "-c", "fast", "--no-sync")
	})
}

// newServer starts a server over what fill puts into its directory.
func newServer(settings []string, fill func(data string) error) (_ *Server, err error) {
	s := &Server{settings: settings}
	// Its own processes notice that the first of them has left, as in a crash.
	s.Server, err = servertest.New(servertest.Program{Name: "PostgreSQL", Command: s.command, Answers: s.answers, Crash: syscall.SIGQUIT, Stop: syscall.SIGINT})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if uid, gid, other, err := serverUser(); err != nil {
		return nil, err
	} else if other {
		if err := os.Chown(s.Dir, int(uid), int(gid)); err != nil {
			return nil, err
		}
	}
	if err := fill(s.data()); err != nil {
		return nil, err
	}
	return s, s.StartFree()
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// serverUser is a user under whom PostgreSQL runs, which root is not.
func serverUser() (uid, gid uint32, other bool, err error) {
	if os.Getuid() != 0 {
		return 0, 0, false, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return uint32(uid), uint32(gid), true, nil
		}
	}
	return 0, 0, false, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

// command is a program of the server, which Debian keeps out of the PATH, as
// its user.
func command(name string, args ...string) *exec.Cmd {
	path, err := servertest.LookPath(name, "postgresql")
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); err != nil && len(found) > 0 {
		path, err = slices.Max(found), nil
	}
	uid, gid, other, none := serverUser()
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Err = os.TempDir(), errors.Join(err, none)
	if other {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	}
	return cmd
}

// run runs a program of the server to its end.
func run(name string, args ...string) error {
	if out, err := command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

func (s *Server) command() *exec.Cmd {
	_, port, _ := net.SplitHostPort(s.Address())
	args := []string{"-D", s.data(), "-p", port}
	for _, set := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200", "shared_buffers=32MB"}, s.settings...) {
		args = append(args, "-c", set)
	}
	return command("postgres", args...)
}

func (s *Server) answers(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL(s.Address()))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// URL is the server's, through an address, which may be a relay's.
func (s *Server) URL(address string) string {
	return "postgres://fenceproxy@" + address + "/postgres?sslmode=disable"
}

// Setting is what stands below store for a proxy that reaches it at address.
func (s *Server) Setting(address string) string {
	return fmt.Sprintf("postgres: {url: %q}", s.URL(address))
}

// Prefix returns a place for one more store.
func (s *Server) Prefix() string { return fmt.Sprintf("t%d_", s.prefixes.Add(1)) }
