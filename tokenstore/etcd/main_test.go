package etcd_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

// shared is the server of the tests that do not stop it, started by the first
// of them.
var shared = sync.OnceValues(func() (*etcdtest.Server, error) {
	started.Store(true)
	return etcdtest.New()
})

var started atomic.Bool

func TestMain(m *testing.M) {
	if os.Getenv(childEndpoint) != "" {
		os.Exit(runChild())
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // these tests wait for the most part
	code := m.Run()
	if started.Load() { // not by the workers of a fuzz test
		if s, err := shared(); err == nil {
			if err := s.Close(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// server returns the shared server.
func server(t testing.TB) *etcdtest.Server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ownServer returns one that the test may stop.
func ownServer(t testing.TB, args ...string) *etcdtest.Server {
	t.Helper()
	s, err := etcdtest.New(args...)
	if err != nil {
		t.Fatal(err)
	}
	s.CloseAfter(t)
	return s
}

// rawClient returns a client for what is done behind the store's back.
func rawClient(t testing.TB, s *etcdtest.Server) *clientv3.Client {
	t.Helper()
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// place makes a store and says where it is.
func place(t testing.TB, s *etcdtest.Server) etcd.Options {
	t.Helper()
	o := etcd.Options{Endpoints: []string{s.Endpoint}, Prefix: s.Prefix()}
	if err := etcd.Init(soon(t), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func open(t testing.TB, o etcd.Options) *etcd.Backend {
	t.Helper()
	b, err := etcd.Open(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// openStore opens the store of one proxy, closed by the test's end.
func openStore(t testing.TB, b session.Backend, o session.Options) *session.Store {
	t.Helper()
	s, err := session.Open(soon(t), b, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(true) })
	return s
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func tok(n uint64) tokenstore.Token { return tokenstore.Token{Major: n} }

func mark(key tokenstore.Key, n uint64) tokenstore.Mark {
	return tokenstore.Mark{Key: key, Token: tok(n)}
}

// TestBackend holds the adapter to what every engine has to promise.
func TestBackend(t *testing.T) {
	sessiontest.Run(t, func(t *testing.T) func(*testing.T) session.Backend {
		o := place(t, server(t))
		return func(t *testing.T) session.Backend { return open(t, o) }
	})
}

func TestStore(t *testing.T) {
	storetest.RunShared(t, func(t *testing.T) tokenstore.Store {
		s, err := session.Open(t.Context(), open(t, place(t, server(t))), session.Options{Linger: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
