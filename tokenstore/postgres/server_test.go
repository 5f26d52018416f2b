package postgres

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is a PostgreSQL of the tests' own: in a directory of its own, on a
// free port of the loopback.
type server struct {
	dir  string
	port int
	args []string

	cmd    *exec.Cmd
	pid    int
	exited chan struct{}
}

// base is a fresh data directory, to be copied, and shared the server of the
// tests that do not disturb it.
var (
	base   lazy[string]
	shared lazy[*server]
)

// lazy is made when it is first needed, by one of several tests.
type lazy[T any] struct {
	mu    sync.Mutex
	made  bool
	value T
}

func (l *lazy[T]) get(make func() T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.made {
		l.value = make()
		l.made = true
	}
	return l.value
}

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // most of them wait for time to pass
	code := m.Run()
	if s := shared.value; s != nil {
		s.stop(syscall.SIGINT)
		_ = os.RemoveAll(s.dir)
	}
	_ = os.RemoveAll(base.value)
	os.Exit(code)
}

// asServer lets a command run as a user under whom PostgreSQL runs, which root
// is not.
func asServer(t testing.TB, cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = os.TempDir()
	if uid, gid, other := serverUser(t); other {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	}
	return cmd
}

func serverUser(t testing.TB) (uid, gid uint32, other bool) {
	if os.Getuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			return uint32(uid), uint32(gid), true
		}
	}
	t.Fatal("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
	return 0, 0, false
}

// binary finds a program of the newest server that Debian has installed, which
// keeps it out of the PATH, and else the one in the PATH.
func binary(t testing.TB, name string) string {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
		return slices.Max(found)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("there is no %s here: install PostgreSQL (make deps does, on Debian)", name)
	}
	return path
}

func serverDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "fenceproxy-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	if uid, gid, other := serverUser(t); other {
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := asServer(t, exec.Command(name, args...)).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// newServer starts a server with these settings. The caller stops it.
func newServer(t testing.TB, settings ...string) *server {
	fresh := base.get(func() string {
		dir := serverDir(t)
		run(t, binary(t, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "fenceproxy", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
		return dir
	})
	s := &server{dir: serverDir(t)}
	run(t, "cp", "-a", filepath.Join(fresh, "data"), filepath.Join(s.dir, "data"))
	s.listen(t, settings...)
	return s
}

// listen starts the server of a data directory on a free port.
func (s *server) listen(t testing.TB, settings ...string) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	s.args = []string{binary(t, "postgres"), "-D", filepath.Join(s.dir, "data"), "-p", strconv.Itoa(s.port)}
	for _, set := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200", "shared_buffers=32MB"}, settings...) {
		s.args = append(s.args, "-c", set)
	}
	s.start(t)
}

// ownServer is one that the test may break.
func ownServer(t testing.TB, settings ...string) *server {
	s := newServer(t, settings...)
	t.Cleanup(func() {
		s.stop(syscall.SIGINT)
		_ = os.RemoveAll(s.dir)
	})
	return s
}

// sharedServer is the one of all tests that leave it alone.
func sharedServer(t testing.TB) *server {
	return shared.get(func() *server { return newServer(t) })
}

// keeper runs the server until it ends, or until the test does, however that
// ends: then nobody holds the other end of its standard input.
const keeper = `exec 3<&0; "$@" & pid=$!; echo $pid; (cat <&3 >/dev/null; kill -INT $pid 2>/dev/null) & wait $pid`

func (s *server) start(t testing.TB) {
	t.Helper()
	s.cmd = asServer(t, exec.Command("sh", append([]string{"-c", keeper, "sh"}, s.args...)...))
	if _, err := s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	logs, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = logs.Close() }()
	s.cmd.Stderr = logs
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if s.pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	s.exited = exited
	go func() { _ = s.cmd.Wait(); close(exited) }()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		conn, err := pgx.Connect(ctx, s.url())
		if err == nil {
			_ = conn.Close(ctx)
			cancel()
			return
		}
		cancel()
		select {
		case <-exited:
			end = time.Now()
		default:
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			t.Fatalf("PostgreSQL does not start: %v\n%s", err, text)
		}
	}
}

// stop ends the server: SIGINT does so in order, SIGQUIT as a crash does.
func (s *server) stop(how syscall.Signal) {
	select {
	case <-s.exited:
		return
	default:
	}
	_ = syscall.Kill(s.pid, how)
	<-s.exited
}

func (s *server) url() string { return urlAt(fmt.Sprintf("127.0.0.1:%d", s.port)) }

func urlAt(address string) string {
	return "postgres://fenceproxy@" + address + "/postgres?sslmode=disable"
}

// through is the URL through another address.
func (o Options) through(address string) Options {
	u, _ := url.Parse(o.URL)
	u.Host = address
	o.URL = u.String()
	return o
}

var places atomic.Int64

// place makes a new, empty store on a server.
func (s *server) place(t testing.TB) Options {
	t.Helper()
	o := Options{URL: s.url(), TablePrefix: fmt.Sprintf("t%d_", places.Add(1))}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := Init(ctx, o); err != nil {
		t.Fatal(err)
	}
	return o
}

func open(t testing.TB, o Options) *Backend {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	b, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// admin is a connection beside those of the store.
func (s *server) admin(t testing.TB, sql ...string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangUp(conn) })
	for _, text := range sql {
		if _, err := conn.Exec(ctx, text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return conn
}
