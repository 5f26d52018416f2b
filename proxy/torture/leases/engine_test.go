package leases

import (
	"fmt"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokenstore/postgres/postgrestest"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis/redistest"
)

// engine is a real store of several servers, of one test's own.
type engine struct {
	server interface {
		Start() error
		Kill()
		Log() string
		Close() error
	}
	setting string // what stands below store
}

// kinds are the stores, and over each so many servers. Redis keeps what it has
// acknowledged as long as it is one server, started again over its own data; its
// failovers are not tried here, for they lose what was granted last (X11).
var kinds = []struct {
	name    string
	servers int
	length  time.Duration          // of the storm's short form: what a dead one of several had waits for its session's end
	start   func() (engine, error) // nil for a store of the server's own
}{
	{"embedded", 1, 8 * time.Second, nil},
	{"etcd", 3, 11 * time.Second, func() (engine, error) {
		s, err := etcdtest.New()
		if err != nil {
			return engine{}, err
		}
		return engine{s, fmt.Sprintf("etcd: {endpoints: [%q]}", s.Endpoint)}, nil
	}},
	{"postgres", 2, 11 * time.Second, func() (engine, error) {
		s, err := postgrestest.New()
		if err != nil {
			return engine{}, err
		}
		return engine{s, fmt.Sprintf("postgres: {url: %q}", s.URL(s.Address))}, nil
	}},
	{"redis", 2, 5 * time.Second, func() (engine, error) {
		s, err := redistest.New()
		if err != nil {
			return engine{}, err
		}
		return engine{s, redistest.Setting(s.Address)}, nil
	}},
}

func newEngine(t testing.TB, start func() (engine, error)) engine {
	t.Helper()
	if start == nil {
		return engine{}
	}
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
