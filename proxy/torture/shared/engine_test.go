package shared

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokenstore/postgres/postgrestest"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis/redistest"
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

// startRedis starts one that is measured, and nothing is held against it (X11).
func startRedis() (engine, error) {
	s, err := redistest.New()
	if err != nil {
		return engine{}, err
	}
	return engine{s, s.Address, redistest.Setting}, nil
}
