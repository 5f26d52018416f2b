package postgres

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// TestRestart: PostgreSQL crashes and comes back while two proxies run. What
// was acknowledged is there, the sessions go on, and no call is lost to a
// connection that the server has left.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	o := s.place(t)
	b := open(t, o)
	a, c := proxy(t, b, session.Options{Linger: time.Second}), proxy(t, open(t, o), session.Options{Linger: time.Second})
	g := admit(t, a, 5*time.Second, mark("k", 5), mark("l", 7))
	s.stop(syscall.SIGQUIT)
	if _, err := try(c, time.Second, mark("k", 6)); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("a raise while PostgreSQL is down: %v", err)
	}
	if !g.MaySend() {
		t.Error("a live grant ended with the server, long before its deadline")
	}
	s.start(t)
	if rec, ok, err := b.Load(t.Context(), "k"); err != nil || !ok || rec.Highest != tok(5) {
		t.Errorf("Load, the first call after the restart: %+v, %v, %v", rec, ok, err)
	}
	var stale *tokenstore.StaleError
	if _, err := try(c, 5*time.Second, mark("l", 6)); !errors.As(err, &stale) {
		t.Errorf("a lower token after the restart: %v", err)
	}
	if _, err := try(c, time.Second, mark("l", 8)); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("the entry from before the restart holds nothing back: %v", err)
	}
	g.Release()
	admit(t, c, 10*time.Second, mark("l", 8)).Release()
	if a.Remaining() == 0 || c.Remaining() == 0 {
		t.Error("a session was lost")
	}
}

// TestHandover: with keepalives far apart only the notifications can tell.
func TestHandover(t *testing.T) {
	t.Parallel()
	o := sharedServer(t).place(t)
	slow := session.Options{TTL: 5 * time.Minute, Linger: time.Second, PollEvery: time.Minute}
	a, b := proxy(t, open(t, o), slow), proxy(t, open(t, o), slow)
	admit(t, a, 5*time.Second, mark("warm", 1)).Release()
	admit(t, b, 20*time.Second, mark("warm", 2)).Release() // now both listen
	for n := range uint64(5) {
		admit(t, a, 10*time.Second, mark("k", 2*n+1)).Release()
		began := time.Now()
		admit(t, b, 10*time.Second, mark("k", 2*n+2)).Release()
		t.Logf("handed over in %v", time.Since(began))
	}
}

// TestDeafWatch is X7: the connection that listens is dead while keepalives go
// on. They bring the raise.
func TestDeafWatch(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := s.place(t)
	r := newRelay(t, s)
	r.set(func() { r.mute = []byte("LISTEN ") })
	a, b := proxy(t, open(t, o.through(r.address())), quick()), proxy(t, open(t, o), quick())
	admit(t, a, 5*time.Second, mark("k", 1)).Release()
	admit(t, b, 5*time.Second, mark("k", 2)).Release()
	if a.Remaining() == 0 {
		t.Error("it lost its session instead")
	}
}

// TestCut is X1: a proxy is cut off from the store alone. It cuts its write at
// its deadline, and the newer one waits for linger after that.
func TestCut(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := s.place(t)
	r := newRelay(t, s)
	a, b := proxy(t, open(t, o.through(r.address())), quick()), proxy(t, open(t, o), quick())
	g := admit(t, a, 5*time.Second, mark("k", 1))
	r.setCut(true)
	lost := make(chan time.Time, 1)
	go func() { <-g.Lost(); lost <- time.Now() }()
	h := admit(t, b, 20*time.Second, mark("k", 2))
	select {
	case at := <-lost:
		if waited := time.Since(at); waited < quick().Linger {
			t.Errorf("the newer write was admitted %v after the older one was cut; linger is %v", waited, quick().Linger)
		}
	default:
		t.Error("the newer write was admitted while the older one was not cut")
	}
	h.Release()
	if g.MaySend() {
		t.Error("a lost grant may be sent under")
	}
	g.Release()
	r.setCut(false)
	admit(t, a, 10*time.Second, mark("k", 2)).Release() // it comes back by itself
}

// TestLateAcquire is X12: the answer of an acquire is lost and it commits
// later. Its owner removes the entry, which would hold others back for ever.
func TestLateAcquire(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := s.place(t)
	r := newRelay(t, s)
	long := quick()
	long.TTL = 30 * time.Second // its session does not end: nobody else may remove the entry
	a, b := proxy(t, open(t, o.through(r.address())), long), proxy(t, open(t, o), quick())
	admit(t, b, 5*time.Second, mark("k", 1)).Release()

	lock := s.admin(t, "BEGIN", "SELECT FROM "+o.TablePrefix+"keys FOR UPDATE")
	failed := make(chan error, 1)
	go func() { _, err := try(a, 10*time.Second, mark("k", 2)); failed <- err }()
	waits := s.admin(t)
	eventually(t, 5*time.Second, "the acquire waits for the key", func() bool {
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
	eventually(t, 5*time.Second, "it commits", func() bool {
		states, err := look.Look(t.Context(), []tokenstore.Key{"k"})
		return err == nil && states[0].Record.Highest == tok(2)
	})
	r.setCut(false)
	admit(t, b, 20*time.Second, mark("k", 3)).Release()
	if a.Remaining() == 0 {
		t.Error("the other session has ended: this has shown nothing")
	}
}

// TestGoneWaits: a session has run out while an acquire of it is under way.
// Nobody may be told that it is gone before that entry is there.
func TestGoneWaits(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := s.place(t)
	a, b := open(t, o), open(t, o)
	defer func() { _, _ = a.Close(), b.Close() }()
	me, other := session.ID{1}, session.ID{2}
	for id, ttl := range map[session.ID]time.Duration{me: 2 * time.Second, other: time.Minute} {
		if err := a.Begin(t.Context(), id, ttl); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Acquire(t.Context(), other, []session.Want{{Mark: mark("k", 1), Nonce: 1}}); err != nil {
		t.Fatal(err)
	}
	lock := s.admin(t, "BEGIN", "SELECT FROM "+o.TablePrefix+"keys FOR UPDATE")
	acquired := make(chan error, 1)
	go func() {
		_, err := a.Acquire(t.Context(), me, []session.Want{{Mark: mark("k", 2), Nonce: 1}})
		acquired <- err
	}()
	began := time.Now()
	for time.Since(began) < 4*time.Second {
		if alive, err := b.Sessions(t.Context()); err != nil || !alive[me] {
			t.Fatalf("Sessions = %v, %v, while an acquire of it may commit", alive, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if _, err := lock.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-acquired; err != nil {
		t.Fatalf("the acquire that had begun in time: %v", err)
	}
	if alive, err := b.Sessions(t.Context()); err != nil || alive[me] {
		t.Errorf("Sessions = %v, %v", alive, err)
	}
	if entries, err := b.Entries(t.Context(), me); err != nil || len(entries) != 1 {
		t.Errorf("Entries = %v, %v", entries, err)
	}
	// Its clock goes back, and it stays gone.
	s.admin(t, "UPDATE "+o.TablePrefix+"sessions SET expires_at = clock_timestamp() + interval '1 hour'")
	if _, err := a.KeepAlive(t.Context(), me, time.Minute); !errors.Is(err, session.ErrSessionOver) {
		t.Errorf("KeepAlive: %v", err)
	}
	if _, err := a.Acquire(t.Context(), me, []session.Want{{Mark: mark("k", 3), Nonce: 2}}); !errors.Is(err, session.ErrSessionOver) {
		t.Errorf("Acquire: %v", err)
	}
}

// TestDurable: nothing is acknowledged before it is durable, whatever
// synchronous_commit says. Here it never is: the synchronous standby does not
// exist.
func TestDurable(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	o := s.place(t)
	o.URL += "&synchronous_commit=off"
	b := open(t, o)
	defer func() { _ = b.Close() }()
	me := session.ID{1}
	if err := b.Begin(t.Context(), me, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), me, []session.Want{{Mark: mark("d", 1), Nonce: 100}}); err != nil {
		t.Fatal(err)
	}
	s.admin(t, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
	admin := s.admin(t)
	eventually(t, 10*time.Second, "the setting is read", func() bool {
		var names string
		err := admin.QueryRow(t.Context(), "SHOW synchronous_standby_names").Scan(&names)
		return err == nil && names == "nobody"
	})
	nonce := uint64(0)
	for name, do := range map[string]func(ctx context.Context) error{
		"Begin":     func(ctx context.Context) error { return b.Begin(ctx, session.ID{9}, time.Minute) },
		"KeepAlive": func(ctx context.Context) error { _, err := b.KeepAlive(ctx, me, time.Minute); return err },
		"Acquire": func(ctx context.Context) error {
			nonce++
			_, err := b.Acquire(ctx, me, []session.Want{{Mark: mark("k", nonce), Nonce: nonce}})
			return err
		},
		"Delete": func(ctx context.Context) error {
			return b.Delete(ctx, []session.Entry{{Key: "d", Token: tok(1), Session: me, Nonce: 100}})
		},
		"Update": func(ctx context.Context) error {
			return b.Update(ctx, func(old []byte) ([]byte, error) { return append(old, 'x'), nil })
		},
		"Import": func(ctx context.Context) error {
			return b.Import(ctx, []KeyRecord{{"i", tokenstore.Record{Highest: tok(1)}}})
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := do(ctx); err == nil {
			t.Errorf("%s was acknowledged, and no standby has it", name)
		}
		cancel()
	}

	// Somebody cancels the wait: PostgreSQL answers as if all were well.
	answer := make(chan error, 1)
	go func() {
		_, err := b.Acquire(t.Context(), me, []session.Want{{Mark: mark("z", 1), Nonce: 99}})
		answer <- err
	}()
	eventually(t, 10*time.Second, "the wait is canceled", func() bool {
		_, _ = admin.Exec(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		select {
		case err := <-answer:
			if err == nil || !strings.Contains(err.Error(), "may not last") {
				t.Errorf("Acquire: %v, want that it may not last", err)
			}
			return true
		default:
			return false
		}
	})
	s.admin(t, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
}

// TestIsolation: with an old snapshot a lock would protect nothing.
func TestIsolation(t *testing.T) {
	t.Parallel()
	o := sharedServer(t).place(t)
	o.URL += "&default_transaction_isolation=serializable"
	b := open(t, o)
	defer func() { _ = b.Close() }()
	if err := b.Begin(t.Context(), session.ID{1}, time.Minute); err == nil || !strings.Contains(err.Error(), "READ COMMITTED") {
		t.Errorf("Begin: %v", err)
	}
}

// TestRoundTrips: each call is one.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	r := newRelay(t, s)
	b := open(t, s.place(t).through(r.address()))
	defer func() { _ = b.Close() }()
	me := session.ID{1}
	if err := b.Begin(t.Context(), me, time.Minute); err != nil {
		t.Fatal(err)
	}
	nonce := uint64(0)
	calls := map[string]func() error{
		"raise": func() error {
			nonce++
			_, err := b.Acquire(t.Context(), me, []session.Want{{Mark: mark("k", nonce), Nonce: nonce}})
			return err
		},
		"several": func() error {
			nonce++
			_, err := b.Acquire(t.Context(), me, []session.Want{{Mark: mark("m", nonce), Nonce: nonce}, {Mark: mark("l", nonce), Nonce: nonce}})
			return err
		},
		"delete": func() error {
			return b.Delete(t.Context(), []session.Entry{{Key: "k", Token: tok(1), Session: me, Nonce: 1}, {Key: "k", Token: tok(2), Session: me, Nonce: 2}})
		},
		"keepalive": func() error { _, err := b.KeepAlive(t.Context(), me, time.Minute); return err },
		"look":      func() error { _, err := b.Look(t.Context(), []tokenstore.Key{"k", "l"}); return err },
	}
	sent := func() (n int) { r.set(func() { n = r.writes }); return n }
	for _, do := range calls { // prepares the statements
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(1100 * time.Millisecond) // pgx would ping a connection that was idle for a second
	for name, do := range calls {
		before := sent()
		for range 3 {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		if n := sent() - before; n != 3 {
			t.Errorf("%s: 3 calls were sent in %d packets", name, n)
		}
	}
}
