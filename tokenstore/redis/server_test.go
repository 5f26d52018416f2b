package redis_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis/redistest"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // most of them wait for time to pass
	os.Exit(m.Run())
}

// server is one redis-server of a test.
type server struct {
	*redistest.Server
	t   testing.TB
	raw *client.Client // for what a proxy would not do
}

// startServer starts a Redis that syncs every write, as far as args do not say
// otherwise.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	r, err := redistest.New(args...)
	if err != nil {
		t.Fatal(err)
	}
	r.CloseAfter(t)
	s := &server{Server: r, t: t}
	s.connect()
	t.Cleanup(func() { _ = s.raw.Close() })
	return s
}

func (s *server) connect() {
	s.raw = client.NewClient(&client.Options{Addr: s.Address(), MaxRetries: -1, Protocol: 2})
}

// restart kills it, waits, and starts it again with what it has on disk.
func (s *server) restart(pause time.Duration) {
	s.t.Helper()
	_ = s.raw.Close()
	s.Kill()
	time.Sleep(pause)
	if err := s.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.connect()
}

func (s *server) do(args ...any) any {
	s.t.Helper()
	val, err := s.raw.Do(context.Background(), args...).Result()
	if err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
	return val
}

var stores atomic.Int64

// options name a store of its own on the server.
func (s *server) options() redis.Options {
	return redis.Options{URL: "redis://" + s.Address(), Prefix: fmt.Sprintf("test%d:", stores.Add(1))}
}

// store makes a store of its own on the server.
func (s *server) store() redis.Options {
	s.t.Helper()
	o := s.options()
	if err := redis.Init(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
	return o
}

func openBackend(t testing.TB, o redis.Options) *redis.Backend {
	t.Helper()
	b, err := redis.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const settle = 500 * time.Millisecond

// openStore opens a proxy's store, which is closed when the test ends. Its
// session outlives what a busy machine does, where change does not say
// otherwise.
func openStore(t testing.TB, o redis.Options, change ...func(*session.Options)) *session.Store {
	t.Helper()
	so := session.Options{TTL: 20 * time.Second, Margin: 5 * time.Second, Linger: settle, SweepEvery: 100 * time.Millisecond}
	for _, f := range change {
		f(&so)
	}
	s, err := session.Open(context.Background(), openBackend(t, o), so)
	if err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for range s.Raised() {
		}
	}()
	t.Cleanup(func() {
		if err := s.Close(false); err != nil {
			t.Errorf("Close: %v", err)
		}
		<-drained
	})
	return s
}

func token(n uint64) tokenstore.Token { return tokenstore.Token{Major: n} }

func mark(key tokenstore.Key, n uint64) tokenstore.Mark {
	return tokenstore.Mark{Key: key, Token: token(n)}
}

// within gives a step as long as a slow machine may need.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// admit asks for a write and waits until it may be sent.
func admit(ctx context.Context, s *session.Store, m tokenstore.Mark) (tokenstore.Grant, error) {
	g, err := s.Acquire(ctx, []tokenstore.Mark{m})
	if err != nil {
		return nil, err
	}
	if err := g.Drained(ctx); err != nil {
		g.Release()
		return nil, err
	}
	return g, nil
}

func mustAdmit(t testing.TB, s *session.Store, m tokenstore.Mark) tokenstore.Grant {
	t.Helper()
	g, err := admit(within(t, 20*time.Second), s, m)
	if err != nil {
		t.Fatalf("token %s on %s is not admitted: %v", m.Token, m.Key, err)
	}
	if !g.MaySend() {
		t.Fatalf("token %s on %s may not be sent", m.Token, m.Key)
	}
	return g
}

// eventually waits for what happens behind the callers.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20s: %s", what)
		}
	}
}
