package redis_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // most of them wait for time to pass
	os.Exit(m.Run())
}

// server is one redis-server of a test: on loopback, in a directory of its own.
type server struct {
	t    testing.TB
	addr string
	args []string
	cmd  *exec.Cmd
	log  bytes.Buffer
	raw  *client.Client // for what a proxy would not do
}

// startServer starts a Redis that syncs every write, as far as args do not say
// otherwise.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	s := &server{t: t, args: append([]string{"--dir", t.TempDir(), "--appendonly", "yes", "--appendfsync", "always", "--save", ""}, args...)}
	t.Cleanup(func() {
		s.kill()
		if s.raw != nil {
			_ = s.raw.Close()
		}
		if t.Failed() {
			t.Logf("redis-server at %s:\n%s", s.addr, s.log.String())
		}
	})
	for range 5 { // a port that was free a moment ago may be taken
		// Below those that outgoing connections get: it is started there again.
		s.addr = fmt.Sprintf("127.0.0.1:%d", 12_000+rand.IntN(18_000))
		if s.run() {
			return s
		}
	}
	t.Fatalf("redis-server does not start:\n%s", s.log.String())
	return nil
}

// run starts it, at the same address each time, and reports whether it answers.
func (s *server) run() bool {
	s.t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		s.t.Fatal("redis-server is not here, and this test needs the real one: run make deps, or on Debian apt-get install redis-server")
	}
	_, port, _ := net.SplitHostPort(s.addr)
	s.cmd = exec.Command(path, append([]string{"--bind", "127.0.0.1", "--port", port}, s.args...)...)
	s.cmd.Dir = filepath.Clean(s.args[1])
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	if s.raw != nil {
		_ = s.raw.Close()
	}
	s.raw = client.NewClient(&client.Options{Addr: s.addr, MaxRetries: -1, Protocol: 2})
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if info, err := s.raw.Info(context.Background(), "server").Result(); err == nil {
			if bytes.Contains([]byte(info), []byte("process_id:"+strconv.Itoa(s.cmd.Process.Pid)+"\r\n")) {
				return true
			}
			break // the port was taken by another one
		}
	}
	s.kill()
	return false
}

// kill ends it as a crash would.
func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// restart kills it, waits, and starts it again with what it has on disk.
func (s *server) restart(pause time.Duration) {
	s.t.Helper()
	s.kill()
	time.Sleep(pause)
	if !s.run() {
		s.t.Fatal("it does not start again")
	}
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
	return redis.Options{URL: "redis://" + s.addr, Prefix: fmt.Sprintf("test%d:", stores.Add(1))}
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
