package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

func TestInit(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.options()
	if _, err := redis.Open(t.Context(), o); !errors.Is(err, tokenstore.ErrMissing) || !strings.Contains(err.Error(), "store init") {
		t.Errorf("Open without a store: %v, want ErrMissing and what to do", err)
	}
	if err := redis.Init(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	marker := server.do("GET", o.Prefix+"store")
	if err := redis.Init(t.Context(), o); err != nil || server.do("GET", o.Prefix+"store") != marker {
		t.Errorf("the second Init: %v, and the marker is %v, was %v", err, server.do("GET", o.Prefix+"store"), marker)
	}
	s := openStore(t, o)
	mustAdmit(t, s, mark("k", 1)).Release()
	server.do("DEL", o.Prefix+"store")
	if err := redis.Init(t.Context(), o); !errors.Is(err, tokenstore.ErrForeign) {
		t.Errorf("Init over records without a marker: %v, want ErrForeign", err)
	}
	server.do("SET", o.Prefix+"store", "fenceproxy 2 something")
	for what, err := range map[string]error{"Init": redis.Init(t.Context(), o), "Open": second(redis.Open(t.Context(), o))} {
		if !errors.Is(err, tokenstore.ErrForeign) {
			t.Errorf("%s of another version: %v, want ErrForeign", what, err)
		}
	}
	if _, _, err := s.Load(t.Context(), "k"); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("Load of a store that has become another: %v", err)
	}
}

func second(_ *redis.Backend, err error) error { return err }

// TestOpenWarns: what may be lost is said at each start, and what would make
// it rarer.
func TestOpenWarns(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--appendfsync", "everysec")
	core, logs := observer.New(zap.WarnLevel)
	o := server.store()
	o.Logger = zap.New(core)
	_ = openBackend(t, o).Close()
	all := ""
	for _, line := range logs.All() {
		all += line.Message + fmt.Sprint(line.ContextMap()) + "\n"
	}
	for _, want := range []string{"accept_lost_writes", "appendfsync is everysec"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning has %q:\n%s", want, all)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	evicts := startServer(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	if err := redis.Init(t.Context(), evicts.options()); err == nil || !strings.Contains(err.Error(), "allkeys-lru") {
		t.Errorf("a Redis that evicts: %v", err)
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:1":                  "redis://",
		"redis://user:sec%ret@127.0.0.1:1/0":  "redis://",
		"redis://user:sec ret@127.0.0.1:1/0":  "redis://",
		"redis://user:secret@127.0.0.1:x/0":   "redis://",
		"redis://user:secret@127.0.0.1:1/a/b": "redis://",
		"redis://user:secret@127.0.0.1:1/0":   "127.0.0.1:1",
	} {
		_, err := redis.Open(t.Context(), redis.Options{URL: url})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", url, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "sec%ret") || strings.Contains(err.Error(), "sec ret") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: the password is in %v", url, err)
		}
	}
}

// TestDamaged: a record that is not one fails closed, and no other key suffers.
func TestDamaged(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	s := openStore(t, o)
	mustAdmit(t, s, mark("good", 1)).Release()
	server.do("SET", o.Prefix+"record:short", "x")
	server.do("SET", o.Prefix+"record:when", strings.Repeat("x", 50))
	server.do("SADD", o.Prefix+"record:type", "x")
	for _, key := range []tokenstore.Key{"short", "when", "type"} {
		var damaged *tokenstore.DamagedError
		if _, _, err := s.Load(t.Context(), key); !errors.As(err, &damaged) || damaged.Key != key {
			t.Errorf("Load(%s): %v, want damage", key, err)
		}
		damaged = nil
		if _, err := s.Acquire(t.Context(), []tokenstore.Mark{mark("good", 2), mark(key, 2)}); !errors.As(err, &damaged) || damaged.Key != key {
			t.Errorf("Acquire(%s): %v, want damage", key, err)
		}
	}
	if rec, ok, err := s.Load(t.Context(), "good"); err != nil || !ok || rec.Highest != token(1) {
		t.Errorf("Load(good) = %v, %v, %v", rec, ok, err)
	}
	mustAdmit(t, s, mark("good", 3)).Release()
	if got := server.do("EXISTS", o.Prefix+"open:short", o.Prefix+"open:type").(int64); got != 0 {
		t.Error("entries were made on damaged keys")
	}
}

// TestOutOfMemory: raises are refused as a whole, and what gives memory back
// goes on.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	s := openStore(t, o, often)
	g := mustAdmit(t, s, mark("k", 1))
	server.do("CONFIG", "SET", "maxmemory", "1")
	if _, err := s.Acquire(t.Context(), []tokenstore.Mark{mark("k", 2), mark("l", 2)}); !errors.Is(err, tokenstore.ErrUnavailable) || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("Acquire: %v, want OOM as a store that does not answer", err)
	}
	was := s.Remaining()
	eventually(t, "a keepalive is confirmed", func() bool { now := s.Remaining(); moved := now > was; was = now; return moved })
	if rec, ok, err := s.Load(t.Context(), "k"); err != nil || !ok || rec.Highest != token(1) {
		t.Errorf("Load = %v, %v, %v", rec, ok, err)
	}
	if !g.MaySend() {
		t.Error("an equal token may not be sent")
	}
	g.Release()
	server.do("CONFIG", "SET", "maxmemory", "0")
	mustAdmit(t, s, mark("k", 2)).Release()
}

// TestOneRoundTrip: a raise is one command, and an equal token none.
func TestOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	s := openStore(t, o, func(o *session.Options) { o.TTL, o.SweepEvery = 10*time.Minute, time.Hour })
	mustAdmit(t, s, mark("first", 1)).Release() // the server has to know the script
	server.do("CONFIG", "RESETSTAT")
	const raises = 50
	for n := range uint64(raises) {
		key := tokenstore.Key(fmt.Sprint("k", n))
		mustAdmit(t, s, mark(key, 1)).Release()
		mustAdmit(t, s, mark(key, 1)).Release()
	}
	calls := 0
	for line := range strings.Lines(server.do("INFO", "commandstats").(string)) {
		var n int
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,", &n); err == nil {
			calls += n
		}
		if strings.HasPrefix(line, "cmdstat_eval:") {
			t.Errorf("a script is sent in full: %s", line)
		}
	}
	if calls != raises {
		t.Errorf("%d raises were %d commands", raises, calls)
	}
}

// TestGoneIsWrittenDown: once somebody was told that a session is gone, no
// clock that steps back makes it alive again.
func TestGoneIsWrittenDown(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	b := openBackend(t, o)
	defer func() { _ = b.Close() }()
	id := session.ID{1}
	if err := b.Begin(t.Context(), id, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is seen as gone", func() bool {
		all, err := b.Sessions(t.Context())
		alive, named := all[id]
		return err == nil && named && !alive
	})
	if got := server.do("HGET", o.Prefix+"sessions", string(id[:])); got != "gone" {
		t.Errorf("Redis has %q of it, want gone", got)
	}
}

// TestNeverTwice: a call whose answer is lost is not made again.
func TestNeverTwice(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	r := startRelay(t, server.Address())
	b := openBackend(t, through(r, o))
	defer func() { _ = b.Close() }()
	id := session.ID{1}
	acquire := func(n uint64) error {
		_, err := b.Acquire(within(t, 10*time.Second), id, []session.Want{{Mark: mark("k", n), Nonce: n}})
		return err
	}
	acquires := func() string { return fmt.Sprint(server.do("HGET", o.Prefix+"acquires", string(id[:]))) }
	if err := b.Begin(t.Context(), id, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := acquire(1); err != nil { // the server has to know the script
		t.Fatal(err)
	}
	release := r.down.hold()
	failed := make(chan error, 1)
	go func() { failed <- acquire(2) }()
	eventually(t, "it is done", func() bool { return acquires() == "2" })
	r.cut()
	release()
	if err := <-failed; err == nil || errors.Is(err, session.ErrSessionOver) {
		t.Errorf("Acquire whose answer is lost: %v, want an unknown result", err)
	}
	if n := acquires(); n != "2" {
		t.Errorf("it was made %s times in all, want once", n)
	}
}
