package postgres

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/tokenstore/postgres/postgrestest"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// shared is the server of the tests that do not disturb it, started by the
// first of them.
var shared = sync.OnceValues(func() (*postgrestest.Server, error) { return postgrestest.New() })

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // most of them wait for time to pass
	code := m.Run()
	if s, err := shared(); err == nil {
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// sharedServer is the one of all tests that leave it alone.
func sharedServer(t testing.TB) *postgrestest.Server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ownServer is one that the test may break.
func ownServer(t testing.TB, settings ...string) *postgrestest.Server {
	t.Helper()
	s, err := postgrestest.New(settings...)
	if err != nil {
		t.Fatal(err)
	}
	s.CloseAfter(t)
	return s
}

// through is the URL through another address.
func (o Options) through(address string) Options {
	u, _ := url.Parse(o.URL)
	u.Host = address
	o.URL = u.String()
	return o
}

// place makes a new, empty store on a server.
func place(t testing.TB, s *postgrestest.Server) Options {
	t.Helper()
	o := Options{URL: s.URL(s.Address()), TablePrefix: s.Prefix()}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := Init(ctx, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// newID is that of a session which no other test has: they share the database, in
// which a session's lock goes by its ID alone, and a session that is locked cannot
// be written down as gone.
func newID() (id session.ID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
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
func connect(t testing.TB, s *postgrestest.Server, sql ...string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL(s.Address()))
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
