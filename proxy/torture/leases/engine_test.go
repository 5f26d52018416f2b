package leases

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokenstore/postgres/postgrestest"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis/redistest"
)

// engine is a real store of several servers, of one test's own.
type engine interface {
	Start() error
	Kill()
	CloseAfter(t testing.TB)
	Address() string
	Setting(address string) string // what stands below store
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
	{"etcd", 3, 11 * time.Second, func() (engine, error) { return etcdtest.New() }},
	{"postgres", 2, 11 * time.Second, func() (engine, error) { return postgrestest.New() }},
	{"redis", 2, 5 * time.Second, func() (engine, error) { return redistest.New() }},
}

// newEngine returns nil for a store of the server's own.
func newEngine(t testing.TB, start func() (engine, error)) engine {
	t.Helper()
	if start == nil {
		return nil
	}
	e, err := start()
	if err != nil {
		t.Fatal(err)
	}
	e.CloseAfter(t)
	return e
}
