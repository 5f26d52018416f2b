package shared

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokenstore/postgres/postgrestest"
)

// engine is a real store of several proxies, of one test's own.
type engine struct {
	server interface {
		Start() error
		Kill()
		Log() string
		Close() error
	}
	address string
	// setting is what stands below store, for a proxy that reaches the engine at
	// an address of its own.
	setting func(address string) string
}

// engines are those that keep every acknowledged transaction (A5).
var engines = []struct {
	name  string
	start func() (engine, error)
}{{"etcd", startEtcd}, {"postgres", startPostgres}}

func startEtcd() (engine, error) {
	s, err := etcdtest.New()
	if err != nil {
		return engine{}, err
	}
	u, err := url.Parse(s.Endpoint)
	if err != nil {
		return engine{}, err
	}
	return engine{s, u.Host, func(address string) string {
		return fmt.Sprintf("etcd: {endpoints: [%q]}", "http://"+address)
	}}, nil
}

func startPostgres() (engine, error) {
	s, err := postgrestest.New()
	if err != nil {
		return engine{}, err
	}
	return engine{s, s.Address, func(address string) string {
		return fmt.Sprintf("postgres: {url: %q}", s.URL(address))
	}}, nil
}

func newEngine(t testing.TB, start func() (engine, error)) engine {
	t.Helper()
	e, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log := e.server.Log()
			t.Logf("the store's log ends with:\n%s", log[max(0, len(log)-3<<10):])
		}
		if err := e.server.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// redisServer is a Redis that syncs every write: it is measured, and nothing is
// held against it (X11).
type redisServer struct {
	dir, address string
	cmd          *exec.Cmd
}

func startRedis() (engine, error) {
	address, err := torture.FreeAddress()
	if err != nil {
		return engine{}, err
	}
	dir, err := os.MkdirTemp("", "fenceproxy-redis-")
	if err != nil {
		return engine{}, err
	}
	s := &redisServer{dir: dir, address: address}
	if err := s.Start(); err != nil {
		_ = s.Close()
		return engine{}, err
	}
	return engine{s, address, func(address string) string {
		return fmt.Sprintf("redis: {url: %q, accept_lost_writes: true}", "redis://"+address)
	}}, nil
}

func (s *redisServer) Start() error {
	_, port, _ := net.SplitHostPort(s.address)
	s.cmd = exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", s.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--logfile", filepath.Join(s.dir, "log"))
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}

func (s *redisServer) Kill() {
	if s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

func (s *redisServer) Log() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(b)
}

func (s *redisServer) Close() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}
