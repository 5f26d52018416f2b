package shared

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokenstore/postgres/postgrestest"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis/redistest"
)

// engine is a real store of several proxies, of one test's own.
type engine interface {
	Start() error
	Kill()
	CloseAfter(t testing.TB)
	Address() string
	// Setting is what stands below store, for a proxy that reaches the engine at
	// an address of its own.
	Setting(address string) string
}

// engines are those that keep every acknowledged transaction (A5).
var engines = []struct {
	name  string
	start func() (engine, error)
}{{"etcd", startEtcd}, {"postgres", startPostgres}}

func startEtcd() (engine, error)     { return etcdtest.New() }
func startPostgres() (engine, error) { return postgrestest.New() }

// startRedis starts one that is measured, and nothing is held against it (X11).
func startRedis() (engine, error) { return redistest.New() }

func newEngine(t testing.TB, start func() (engine, error)) engine {
	t.Helper()
	e, err := start()
	if err != nil {
		t.Fatal(err)
	}
	e.CloseAfter(t)
	return e
}
