// Package postgrestest starts a PostgreSQL of its own for a test: on a free
// loopback port, in a private directory, stopped by its process id. It does not
// run as root, and gives its rights away where the test does.
package postgrestest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ready is how long a start may take.
const ready = 30 * time.Second

// Server is a PostgreSQL with its data. It is not safe for concurrent use, but
// for Prefix.
type Server struct {
	// Address is the same after each start.
	Address string

	dir      string
	args     []string
	pid      int
	ended    chan struct{} // closed when it is over
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
		return run("pg_basebackup", "-d", s.URL(s.Address), "-D", data, "-R", "-c", "fast", "--no-sync")
	})
}

// newServer starts a server over what fill puts into its directory.
func newServer(settings []string, fill func(data string) error) (_ *Server, err error) {
	dir, err := os.MkdirTemp("", "fenceproxy-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if uid, gid, other, err := serverUser(); err != nil {
		return nil, err
	} else if other {
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			return nil, err
		}
	}
	if err := fill(s.data()); err != nil {
		return nil, err
	}
	for range 5 { // another program may take the port before PostgreSQL does
		if s.Address, err = freePort(); err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(s.Address)
		s.args = []string{"-D", s.data(), "-p", port}
		for _, set := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200", "shared_buffers=32MB"}, settings...) {
			s.args = append(s.args, "-c", set)
		}
		if err = s.Start(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

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
func command(name string, args ...string) (*exec.Cmd, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no %s here: run make deps, or on Debian apt-get install postgresql", name)
		}
		path = slices.Max(found)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = os.TempDir()
	uid, gid, other, err := serverUser()
	if err != nil {
		return nil, err
	}
	if other {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	}
	return cmd, nil
}

// run runs a program of the server to its end.
func run(name string, args ...string) error {
	cmd, err := command(name, args...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// keeper runs the server until it ends, or until the test does, however that
// ends: then nobody holds the other end of its standard input.
const keeper = `exec 3<&0; "$@" & pid=$!; echo $pid; (cat <&3 >/dev/null; kill -INT $pid 2>/dev/null) & wait $pid`

// Start starts it, over what is there, and waits until it answers.
func (s *Server) Start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, err := command("postgres", s.args...)
	if err != nil {
		return err
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		return err
	}
	cmd.Path, cmd.Args = sh, append([]string{"sh", "-c", keeper, "sh", cmd.Path}, s.args...)
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	if err != nil {
		return fmt.Errorf("PostgreSQL did not start: %w\n%s", err, s.Log())
	}
	s.pid, s.ended = pid, ended
	if err := s.answers(); err != nil {
		s.Kill()
		return fmt.Errorf("PostgreSQL did not start: %w\n%s", err, s.Log())
	}
	return nil
}

func (s *Server) answers() error {
	for end := time.Now().Add(ready); ; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err := pgx.Connect(ctx, s.URL(s.Address))
		if err == nil {
			err = conn.Close(ctx)
		}
		cancel()
		if err == nil {
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

// URL is the server's, through an address, which may be a relay's.
func (s *Server) URL(address string) string {
	return "postgres://fenceproxy@" + address + "/postgres?sslmode=disable"
}

// Prefix returns a place for one more store.
func (s *Server) Prefix() string { return fmt.Sprintf("t%d_", s.prefixes.Add(1)) }

// Kill ends it at once, as a crash does: its own processes notice that the
// first of them has left.
func (s *Server) Kill() { s.end(syscall.SIGQUIT) }

// Stop ends it in order.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

func (s *Server) end(sig syscall.Signal) {
	if s.ended == nil {
		return
	}
	select {
	case <-s.ended: // its number may be another's by now
		return
	default:
	}
	_ = syscall.Kill(s.pid, sig)
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
