package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestLeaser(t *testing.T) {
	t.Parallel()
	storetest.RunLeases(t, func(t *testing.T) storetest.LeaseStore {
		s, err := session.Open(t.Context(), open(t, place(t, sharedServer(t))), session.Options{Linger: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// TestBeforeLeases: a store that was made before there were leases is told of
// store init, which keeps all it has.
func TestBeforeLeases(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := place(t, s)
	b := open(t, o)
	if err := b.Import(t.Context(), []dump.Record{{Key: "k", Record: tokenstore.Record{Highest: tok(7)}}}); err != nil {
		t.Fatal(err)
	}
	_ = b.Close()
	p := o.TablePrefix
	connect(t, s, "DROP FUNCTION "+p+"swap_lease", "DROP FUNCTION "+p+"raise_granted", "DROP TABLE "+p+"leases", "ALTER TABLE "+p+"about DROP COLUMN granted")
	refused(t, o, "put them in with fenceproxy store init, which keeps all marks", nil)
	if err := Init(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	st, err := proxy(t, open(t, o), quick()).GrantLease(t.Context(), "k", tokenstore.Lease{}, tokenstore.Lease{ID: "i", TTL: 1}, 0)
	if err != nil || st.Token != tok(8) {
		t.Errorf("GrantLease = %v, %v", st.Token, err)
	}

	// The counter does not go with the table.
	connect(t, s, "DROP TABLE "+p+"leases")
	refused(t, o, "store init, which keeps all marks and the counter", nil)
	if err := Init(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	b = open(t, o)
	defer func() { _ = b.Close() }()
	if st, err := b.LeaseState(t.Context(), "k"); err != nil || st.Lease.Held() || st.Granted != 8 {
		t.Errorf("LeaseState = %+v, %v", st, err)
	}
}

// TestDamagedLease: what was not written by fenceproxy is nobody's lease.
func TestDamagedLease(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := place(t, s)
	p := proxy(t, open(t, o), quick())
	next := tokenstore.Lease{ID: "i", TTL: time.Second}
	connect(t, s, "INSERT INTO "+o.TablePrefix+"leases VALUES ('bad', 'nonsense')")
	_, err1 := p.Lease(t.Context(), "bad")
	_, err2 := p.GrantLease(t.Context(), "bad", tokenstore.Lease{}, next, 0)
	_, err3 := p.RenewLease(t.Context(), "bad", next, 1)
	for _, err := range []error{err1, err2, err3, p.EndLease(t.Context(), "bad", next)} {
		var damaged *tokenstore.DamagedError
		if !errors.As(err, &damaged) || damaged.Key != "bad" {
			t.Errorf("%v, want a *DamagedError of the key", err)
		}
	}
}

// TestGrantDamagedRecord: no token is granted on a key whose record cannot be
// read, or the counter would not know of it and grant it again.
func TestGrantDamagedRecord(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := place(t, s)
	b := open(t, o)
	if err := b.Import(t.Context(), []dump.Record{{Key: "bad", Record: tokenstore.Record{Highest: tok(7)}}}); err != nil {
		t.Fatal(err)
	}
	p := proxy(t, b, quick())
	ask := tokenstore.Lease{ID: "i", TTL: time.Second}
	first, err := p.GrantLease(t.Context(), "a", tokenstore.Lease{}, ask, 0)
	if err != nil {
		t.Fatal(err)
	}
	connect(t, s, "ALTER TABLE "+o.TablePrefix+"keys DROP CONSTRAINT "+o.TablePrefix+"keys_highest_check", "UPDATE "+o.TablePrefix+`keys SET highest = '\x00' WHERE key = 'bad'`)
	var damaged *tokenstore.DamagedError
	if l, err := p.GrantLease(t.Context(), "bad", tokenstore.Lease{}, ask, 0); !errors.As(err, &damaged) {
		t.Errorf("token %v on a damaged record, behind %v: %v", l.Token, first.Token, err)
	}
	if l, err := b.LeaseState(t.Context(), "bad"); err != nil || l.Lease.Held() || l.Granted != first.Token.Major {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestGrantWaitsForRaise: a raise of the key that is under way is above or
// below the token, and never beside it.
func TestGrantWaitsForRaise(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	o := place(t, s)
	b := open(t, o)
	if err := b.Import(t.Context(), []dump.Record{{Key: "k", Record: tokenstore.Record{Highest: tok(7)}}}); err != nil {
		t.Fatal(err)
	}
	p := proxy(t, b, quick())
	conn := connect(t, s)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE "+o.TablePrefix+"keys SET highest = $1", encode(tok(100))); err != nil {
		t.Fatal(err)
	}
	granted := make(chan tokenstore.Lease, 1)
	go func() {
		l, err := p.GrantLease(context.Background(), "k", tokenstore.Lease{}, tokenstore.Lease{ID: "i", TTL: 1}, 0)
		if err != nil {
			t.Error(err)
		}
		granted <- l
	}()
	watch := connect(t, s)
	blocked := func() (yes bool) {
		err := watch.QueryRow(t.Context(), "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%'||$1||'%'", o.TablePrefix+"swap_lease").Scan(&yes)
		return err == nil && yes
	}
	eventually(t, 20*time.Second, "the grant waits for the raise", blocked)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := <-granted; l.Token != tok(101) {
		t.Errorf("token %v beside a raise to 100", l.Token)
	}
}
