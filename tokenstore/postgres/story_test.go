package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest/stories"
)

// TestRestart: PostgreSQL crashes and comes back while two proxies run. What
// was acknowledged is there, the sessions go on, and no call is lost to a
// connection that the server has left.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	o := place(t, s)
	b := open(t, o)
	long := session.Options{TTL: 30 * time.Second, Linger: time.Second} // it outlives a start on a busy machine
	a, c := proxy(t, b, long), proxy(t, open(t, o), long)
	g := admit(t, a, 20*time.Second, mark("k", 5), mark("l", 7))
	s.Kill()
	if _, err := try(c, time.Second, mark("k", 6)); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("a raise while PostgreSQL is down: %v", err)
	}
	if !g.MaySend() {
		t.Error("a live grant ended with the server, long before its deadline")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if rec, ok, err := b.Load(t.Context(), "k"); err != nil || !ok || rec.Highest != tok(5) {
		t.Errorf("Load, the first call after the restart: %+v, %v, %v", rec, ok, err)
	}
	var stale *tokenstore.StaleError
	if _, err := try(c, 20*time.Second, mark("l", 6)); !errors.As(err, &stale) {
		t.Errorf("a lower token after the restart: %v", err)
	}
	if _, err := try(c, time.Second, mark("l", 8)); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("the entry from before the restart holds nothing back: %v", err)
	}
	g.Release()
	admit(t, c, 20*time.Second, mark("l", 8)).Release()
	if a.Remaining() == 0 || c.Remaining() == 0 {
		t.Error("a session was lost")
	}
}

// TestHandover: with keepalives far apart only the notifications can tell.
func TestHandover(t *testing.T) {
	t.Parallel()
	o := place(t, sharedServer(t))
	slow := session.Options{TTL: 5 * time.Minute, Linger: time.Second, PollEvery: time.Minute}
	a, b := proxy(t, open(t, o), slow), proxy(t, open(t, o), slow)
	admit(t, a, 20*time.Second, mark("warm", 1)).Release()
	admit(t, b, 20*time.Second, mark("warm", 2)).Release() // now both listen
	for n := range uint64(5) {
		admit(t, a, 20*time.Second, mark("k", 2*n+1)).Release()
		began := time.Now()
		admit(t, b, 20*time.Second, mark("k", 2*n+2)).Release()
		t.Logf("handed over in %v", time.Since(began))
	}
}

// TestDeafWatch is X7: the connection that listens is dead while keepalives go
// on. They bring the raise.
func TestDeafWatch(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := place(t, s)
	r := newRelay(t, s)
	r.set(func() { r.mute = []byte("LISTEN ") })
	a, b := proxy(t, open(t, o.through(r.address())), quick()), proxy(t, open(t, o), quick())
	admit(t, a, 20*time.Second, mark("k", 1)).Release()
	admit(t, b, 20*time.Second, mark("k", 2)).Release()
	if a.Remaining() == 0 {
		t.Error("it lost its session instead")
	}
}

// TestWatchBegins: whoever waits is told to look once everything is heard, and
// no sooner.
func TestWatchBegins(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	b := open(t, place(t, s))
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	begins, ended := make(listening, 1), make(chan error, 1)
	go func() { ended <- b.Watch(ctx, begins) }()
	select {
	case <-begins:
		var n int
		err := connect(t, s).QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query = $1", "LISTEN "+b.channel).Scan(&n)
		if err != nil || n != 1 {
			t.Errorf("%d connections listen: %v", n, err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not begin")
	}
	cancel()
	<-ended
}

// listening hears where a watch begins.
type listening chan struct{}

func (l listening) Listening() { l <- struct{}{} }

func (listening) Raised(tokenstore.Mark) {}
func (listening) Gone(session.Entry)     {}
func (listening) Changed(tokenstore.Key) {}

// TestWatchEnds: a connection that the network has dropped is noticed, or
// notifications would be missing until the next restart.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	r := newRelay(t, s)
	b := open(t, place(t, s).through(r.address()))
	defer func() { _ = b.Close() }()
	watch := func() chan error {
		ended := make(chan error, 1)
		go func() { ended <- b.Watch(t.Context(), nil) }()
		return ended
	}
	ends := func(ended chan error, what string) {
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s: it ended without an error", what)
			}
		case <-time.After(6 * silence):
			t.Errorf("%s: it is still listened to after %v", what, 6*silence)
		}
	}
	listens, admin := watch(), connect(t, s)
	eventually(t, 20*time.Second, "it listens", func() bool {
		var n int
		err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND query = $1", "LISTEN "+b.channel).Scan(&n)
		return err == nil && n == 1
	})
	r.drop()
	r.set(func() { r.mute = []byte("LISTEN ") })
	begins := watch()
	ends(begins, "a connection that is dead from the beginning")
	ends(listens, "a connection that was dropped")
}

// TestStories tells those of the protocol over PostgreSQL.
func TestStories(t *testing.T) {
	t.Parallel()
	stories.Run(t, func(t *testing.T) stories.Place {
		s := sharedServer(t)
		o := place(t, s)
		return stories.Place{Address: s.Address(), Open: func(t *testing.T, address string) session.Backend {
			return open(t, o.through(address))
		}}
	})
}

// TestLateAcquire is X12: the answer of an acquire is lost and it commits
// later. Its owner removes the entry, which would hold others back for ever.
func TestLateAcquire(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := place(t, s)
	r := newRelay(t, s)
	long := quick()
	long.TTL = 30 * time.Second // its session does not end: nobody else may remove the entry
	a, b := proxy(t, open(t, o.through(r.address())), long), proxy(t, open(t, o), quick())
	admit(t, b, 20*time.Second, mark("k", 1)).Release()

	lock := connect(t, s, "BEGIN", "SELECT FROM "+o.TablePrefix+"keys FOR UPDATE")
	failed := make(chan error, 1)
	go func() { _, err := try(a, 10*time.Second, mark("k", 2)); failed <- err }()
	waits := connect(t, s)
	eventually(t, 20*time.Second, "the acquire waits for the key", func() bool {
		var n int
		err := waits.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"+o.TablePrefix+"acquire%'").Scan(&n)
		return err == nil && n > 0
	})
	r.setCut(true)
	if err := <-failed; !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Fatalf("the acquire whose answer is lost: %v", err)
	}
	if _, err := lock.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	look := open(t, o)
	defer func() { _ = look.Close() }()
	eventually(t, 20*time.Second, "it commits", func() bool {
		states, err := look.Look(t.Context(), []tokenstore.Key{"k"})
		return err == nil && states[0].Record.Highest == tok(2)
	})
	r.setCut(false)
	admit(t, b, 20*time.Second, mark("k", 3)).Release()
	if a.Remaining() == 0 {
		t.Error("the other session has ended: this has shown nothing")
	}
}
