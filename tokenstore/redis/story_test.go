package redis_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest/stories"
)

// TestStories tells those of the protocol over Redis, but X11: failover_test.go.
// What follows are those of its own.
func TestStories(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	stories.Run(t, func(*testing.T) stories.Place {
		o := server.store()
		return stories.Place{Address: server.Address(), Open: func(t *testing.T, address string) session.Backend {
			o := o
			o.URL = "redis://" + address
			return openBackend(t, o)
		}}
	})
}

// through is the way to a store over a relay.
func through(r *relay, o redis.Options) redis.Options {
	o.URL = "redis://" + r.addr
	return o
}

// often sends a keepalive each 2s, in a session that outlives three of them.
func often(o *session.Options) { o.Margin = 14 * time.Second }

func isLost(g tokenstore.Grant) bool {
	select {
	case <-g.Lost():
		return true
	default:
		return false
	}
}

// TestStoryRestart: a Redis that syncs every write is killed and started again
// under two proxies. Sessions and entries are those of before.
func TestStoryRestart(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	a, b := openStore(t, o), openStore(t, o)
	w1 := mustAdmit(t, a, mark("k", 1))
	done := make(chan tokenstore.Grant, 1)
	go func() {
		g, err := admit(within(t, 20*time.Second), b, mark("k", 2))
		if err != nil {
			t.Errorf("w2: %v", err)
		}
		done <- g
	}()
	eventually(t, "w2 waits", func() bool { return b.Waiting() == 1 })
	server.restart(300 * time.Millisecond)
	if !w1.MaySend() || isLost(w1) {
		t.Error("the session did not survive")
	}
	select {
	case <-done:
		t.Fatal("w2 does not wait for w1")
	case <-time.After(500 * time.Millisecond):
	}
	w1.Release()
	if g := <-done; g != nil {
		g.Release()
	}
	var stale *tokenstore.StaleError
	if _, err := admit(within(t, 10*time.Second), a, mark("k", 1)); !errors.As(err, &stale) {
		t.Errorf("w1 again: %v, want that it is stale", err)
	}
}

// TestStoryEmpty: a Redis that keeps nothing is started again. Every token
// would look new to it, so nothing is admitted over it until somebody who knows
// makes a new store, and proxies are started on that.
func TestStoryEmpty(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--appendonly", "no")
	o := server.store()
	s := openStore(t, o, func(o *session.Options) { o.TTL, o.Margin = 6*time.Second, time.Second })
	w9 := mustAdmit(t, s, mark("k", 9))
	server.restart(0)
	if _, _, err := s.Load(within(t, 5*time.Second), "k"); !errors.Is(err, tokenstore.ErrUnavailable) || !strings.Contains(err.Error(), "store init") {
		t.Errorf("Load: %v, want that the store is not there, and what to do", err)
	}
	if _, err := admit(within(t, 5*time.Second), s, mark("l", 1)); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("admission: %v, want ErrUnavailable", err)
	}
	eventually(t, "the session ends", func() bool { return isLost(w9) })
	w9.Release()
	if _, err := redis.Open(t.Context(), o); !errors.Is(err, tokenstore.ErrMissing) {
		t.Errorf("Open: %v, want ErrMissing", err)
	}
	if err := redis.Init(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := admit(within(t, 2*time.Second), s, mark("k", 9)); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("a proxy of the old store is admitted to the new one: %v", err)
	}
	mustAdmit(t, openStore(t, o), mark("k", 1)).Release()
}

// TestStoryRolledBack: a Redis comes back with what it had a moment ago. The
// session is in it and an entry of it is not: no raise would ever find the
// sticky grant. So the session ends.
func TestStoryRolledBack(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--appendonly", "no")
	o := server.store()
	s := openStore(t, o, often)
	mustAdmit(t, s, mark("k", 1)).Release()
	server.do("SAVE")
	w2 := mustAdmit(t, s, mark("k", 2))
	server.restart(0)
	eventually(t, "the session ends", func() bool { return isLost(w2) })
	w2.Release()
	eventually(t, "there is a new one", func() bool { return s.Remaining() > 0 })
	mustAdmit(t, s, mark("k", 2)).Release()
}

// TestStoryForgottenConnections: the network forgets the connections that there
// are, without a word, and lets new ones pass. The session lives on.
func TestStoryForgottenConnections(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	r := startRelay(t, server.Address())
	s := openStore(t, through(r, server.store()), func(o *session.Options) {
		o.TTL, o.Margin, o.OpTimeout = 9*time.Second, 1500*time.Millisecond, 4500*time.Millisecond // a keepalive each 2.5s
	})
	w1 := mustAdmit(t, s, mark("k", 1))
	const idle = 8 // connections that will hang
	var wg sync.WaitGroup
	release := r.up.hold()
	for i := range byte(idle) {
		wg.Go(func() { mustAdmit(t, s, mark(tokenstore.Key([]byte{'a' + i}), 1)).Release() })
	}
	eventually(t, "there are so many connections", func() bool { return r.pairs() > idle })
	release()
	wg.Wait()
	r.abandon()
	was := s.Remaining()
	eventually(t, "a keepalive is confirmed, or the session ends", func() bool {
		now := s.Remaining()
		moved := now > was
		was = now
		return moved || isLost(w1)
	})
	if isLost(w1) || !w1.MaySend() {
		t.Error("the session did not survive")
	}
	w1.Release()
}

// TestStoryX7: RA hears nothing of the others, since it may not listen, and its
// keepalives go on. The raise comes with them.
func TestStoryX7(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	server.do("ACL", "SETUSER", "deaf", "on", ">pw", "~*", "&*", "+@all", "-subscribe")
	deaf := o
	deaf.URL = strings.Replace(o.URL, "redis://", "redis://deaf:pw@", 1)
	a, b := openStore(t, deaf, often), openStore(t, o)
	w1 := mustAdmit(t, a, mark("k", 1))
	w1.Release() // the entry stays
	mustAdmit(t, b, mark("k", 2)).Release()
	if _, err := a.Acquire(within(t, 10*time.Second), []tokenstore.Mark{mark("k", 1)}); err == nil {
		t.Error("w1 is admitted once more")
	}
	if a.Remaining() <= 0 {
		t.Error("the session has ended, so that this shows nothing")
	}
}

// TestStoryX12: an acquire times out at RA and is committed later. Nobody owns
// its entry; RA finds it when RB raises, and RB does not wait for ever.
func TestStoryX12(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	r := startRelay(t, server.Address())
	a := openStore(t, through(r, o), often, func(o *session.Options) { o.OpTimeout = 2 * time.Second })
	b := openStore(t, o)
	mustAdmit(t, a, mark("other", 1)).Release() // the server has to know the script
	release := r.up.hold()
	if _, err := a.Acquire(within(t, 10*time.Second), []tokenstore.Mark{mark("k", 1)}); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Fatalf("Acquire: %v, want ErrUnavailable", err)
	}
	if _, ok, err := b.Load(within(t, 5*time.Second), "k"); ok || err != nil {
		t.Fatalf("it was recorded already (%v, %v): this shows nothing", ok, err)
	}
	release()
	eventually(t, "the acquire is committed late", func() bool {
		rec, ok, err := b.Load(within(t, 5*time.Second), "k")
		return err == nil && ok && rec.Highest == token(1)
	})
	mustAdmit(t, b, mark("k", 2)).Release()
	if a.Remaining() <= 0 {
		t.Error("the session of RA has ended, so that this shows nothing")
	}
}

// TestWatchFindsOut: the connection for notifications dies without a word.
func TestWatchFindsOut(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	r := startRelay(t, server.Address())
	b := openBackend(t, through(r, server.store()))
	ended := make(chan error, 1)
	go func() { ended <- b.Watch(t.Context(), nobody{}) }()
	eventually(t, "it listens", func() bool { return len(server.do("PUBSUB", "CHANNELS").([]any)) == 3 })
	r.stall()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ended without a reason")
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits for ever")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestWatchBegins: whoever waits is told to look once everything is heard, and
// no sooner.
func TestWatchBegins(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	b := openBackend(t, server.store())
	ctx, cancel := context.WithCancel(t.Context())
	begins, ended := make(listening, 1), make(chan error, 1)
	go func() { ended <- b.Watch(ctx, begins) }()
	select {
	case <-begins:
		if n := len(server.do("PUBSUB", "CHANNELS").([]any)); n != 3 {
			t.Errorf("it listens to %d channels", n)
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not begin")
	}
	cancel()
	<-ended
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// listening hears where a watch begins.
type listening chan struct{}

func (l listening) Listening() { l <- struct{}{} }

func (listening) Raised(tokenstore.Mark) {}
func (listening) Gone(session.Entry)     {}
func (listening) Changed(tokenstore.Key) {}

type nobody struct{}

func (nobody) Raised(tokenstore.Mark) {}
func (nobody) Gone(session.Entry)     {}
func (nobody) Changed(tokenstore.Key) {}
