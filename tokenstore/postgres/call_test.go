package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// TestGoneWaits: a session has run out while an acquire of it is under way.
// Nobody may be told that it is gone before that entry is there.
func TestGoneWaits(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := place(t, s)
	a, b := open(t, o), open(t, o)
	defer func() { _, _ = a.Close(), b.Close() }()
	me, other := newID(), newID()
	if err := a.Begin(t.Context(), other, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Acquire(t.Context(), other, []session.Want{{Mark: mark("k", 1), Nonce: 1}}); err != nil {
		t.Fatal(err)
	}
	lock := connect(t, s, "BEGIN", "SELECT FROM "+o.TablePrefix+"keys FOR UPDATE")
	if err := a.Begin(t.Context(), me, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	acquired := make(chan error, 1)
	go func() {
		_, err := a.Acquire(t.Context(), me, []session.Want{{Mark: mark("k", 2), Nonce: 1}})
		acquired <- err
	}()
	began := time.Now()
	for time.Since(began) < 5*time.Second {
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
	connect(t, s, "UPDATE "+o.TablePrefix+"sessions SET expires_at = clock_timestamp() + interval '1 hour'")
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
	o := place(t, s)
	o.URL += "&synchronous_commit=off"
	b := open(t, o)
	defer func() { _ = b.Close() }()
	me := newID()
	if err := b.Begin(t.Context(), me, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), me, []session.Want{{Mark: mark("d", 1), Nonce: 100}}); err != nil {
		t.Fatal(err)
	}
	connect(t, s, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
	admin := connect(t, s)
	eventually(t, 10*time.Second, "the setting is read", func() bool {
		var names string
		err := admin.QueryRow(t.Context(), "SHOW synchronous_standby_names").Scan(&names)
		return err == nil && names == "nobody"
	})
	nonce := uint64(0)
	for name, do := range map[string]func(ctx context.Context) error{
		"Begin":     func(ctx context.Context) error { return b.Begin(ctx, newID(), time.Minute) },
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
			return b.Import(ctx, []dump.Record{{Key: "i", Record: tokenstore.Record{Highest: tok(1)}}})
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
	connect(t, s, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
}

// TestIsolation: with an old snapshot a lock would protect nothing.
func TestIsolation(t *testing.T) {
	t.Parallel()
	o := place(t, sharedServer(t))
	o.URL += "&default_transaction_isolation=serializable"
	b := open(t, o)
	defer func() { _ = b.Close() }()
	if err := b.Begin(t.Context(), newID(), time.Minute); err == nil || !strings.Contains(err.Error(), "READ COMMITTED") {
		t.Errorf("Begin: %v", err)
	}
}

// TestRoundTrips: each call is one.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	r := newRelay(t, s)
	b := open(t, place(t, s).through(r.address()))
	defer func() { _ = b.Close() }()
	me := newID()
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

// TestDropped: connections that pass nothing any more must not keep their
// places in the pool.
func TestDropped(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	r := newRelay(t, s)
	o := place(t, s)
	b := open(t, o.through(r.address()))
	defer func() { _ = b.Close() }()
	load := func(ctx context.Context, of int) (failed int) {
		answers := make(chan error, of)
		for range of {
			go func() { _, _, err := b.Load(ctx, "k"); answers <- err }()
		}
		for range of {
			if err := <-answers; err != nil {
				failed++
			}
		}
		return failed
	}
	admin := connect(t, s)
	// All of the pool's connections are in use, and so open, when they are dropped.
	lock := connect(t, s, "BEGIN", "LOCK "+o.TablePrefix+"keys")
	done := make(chan int, 1)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() { done <- load(ctx, workConns) }()
	eventually(t, 20*time.Second, "all wait for the lock", func() bool {
		var n int
		err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass", o.TablePrefix+"keys").Scan(&n)
		return err == nil && n == workConns
	})
	r.drop()
	leave()
	if n := <-done; n != workConns {
		t.Fatalf("%d of %d calls failed over connections that pass nothing", n, workConns)
	}
	if _, err := lock.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // pgx itself would keep the places for 15s
	defer cancel()
	if n := load(ctx, 2); n > 0 {
		t.Errorf("%d calls failed after that", n)
	}
}

// TestExpired: a session that has run out gets nothing, though nobody has
// looked at it since, and is then seen as gone whatever the clock does.
func TestExpired(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := place(t, s)
	b := open(t, o)
	defer func() { _ = b.Close() }()
	var ids []session.ID
	for _, do := range []func(me session.ID) error{
		func(me session.ID) error {
			_, err := b.Acquire(t.Context(), me, []session.Want{{Mark: mark("k", 1), Nonce: 1}})
			return err
		},
		func(me session.ID) error { _, err := b.KeepAlive(t.Context(), me, time.Minute); return err },
	} {
		me := newID()
		ids = append(ids, me)
		if err := b.Begin(t.Context(), me, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		if err := do(me); !errors.Is(err, session.ErrSessionOver) {
			t.Errorf("after its time: %v, want ErrSessionOver", err)
		}
	}
	connect(t, s, "UPDATE "+o.TablePrefix+"sessions SET expires_at = clock_timestamp() + interval '1 hour'")
	if alive, err := b.Sessions(t.Context()); err != nil || len(alive) != 2 || alive[ids[0]] || alive[ids[1]] {
		t.Errorf("Sessions = %v, %v", alive, err)
	}
}

// TestOrder: everybody locks keys and entries in one order, or two of them
// would wait for each other until PostgreSQL ends one.
func TestOrder(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := place(t, s)
	b := open(t, o)
	defer func() { _ = b.Close() }()
	me := newID()
	if err := b.Begin(t.Context(), me, time.Minute); err != nil {
		t.Fatal(err)
	}
	wants := func(n uint64) []session.Want {
		return []session.Want{{Mark: mark("b", n), Nonce: n}, {Mark: mark("a", n), Nonce: n}}
	}
	if _, err := b.Acquire(t.Context(), me, wants(1)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		table string
		do    func() error
	}{
		{"entries", func() error {
			return b.Delete(t.Context(), []session.Entry{{Key: "b", Token: tok(1), Session: me, Nonce: 1}, {Key: "a", Token: tok(1), Session: me, Nonce: 1}})
		}},
		{"keys", func() error { _, err := b.Acquire(t.Context(), me, wants(2)); return err }},
	} {
		table := step.table
		lock := connect(t, s, "BEGIN", "SELECT FROM "+o.TablePrefix+table+" WHERE key = 'b' FOR UPDATE")
		done := make(chan error, 1)
		go func() { done <- step.do() }()
		admin := connect(t, s)
		eventually(t, 20*time.Second, "it has locked a of "+table+" and waits for b", func() bool {
			var free int
			err := admin.QueryRow(t.Context(), "SELECT count(*) FROM (SELECT FROM "+o.TablePrefix+table+" WHERE key = 'a' FOR UPDATE SKIP LOCKED) x").Scan(&free)
			return err == nil && free == 0
		})
		if _, err := lock.Exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", table, err)
		}
	}
}
