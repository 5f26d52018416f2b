package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

func refused(t *testing.T, o Options, want string, target error) {
	t.Helper()
	b, err := Open(t.Context(), o)
	if err == nil {
		_ = b.Close()
		t.Fatalf("it was opened, want an error with %q", want)
	}
	if !strings.Contains(err.Error(), want) || target != nil && !errors.Is(err, target) {
		t.Errorf("error = %q, want %q and %v", err, want, target)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	refused(t, Options{}, "store.postgres.url", nil)
	refused(t, Options{URL: s.URL(s.Address()), TablePrefix: `x"; drop`}, "table_prefix", nil)
	refused(t, Options{URL: s.URL(s.Address()), TablePrefix: "none_"}, "store init", tokenstore.ErrMissing)
	refused(t, Options{URL: s.URL("127.0.0.1:1")}, "check store.postgres.url", nil)

	o := place(t, s)
	connect(t, s, "UPDATE "+o.TablePrefix+"about SET format = 2")
	refused(t, o, "format 2", tokenstore.ErrForeign)
	if err := Init(t.Context(), o); !errors.Is(err, tokenstore.ErrForeign) {
		t.Errorf("Init over a store of another format: %v", err)
	}
	o = place(t, s)
	connect(t, s, "ALTER TABLE "+o.TablePrefix+"keys SET UNLOGGED")
	refused(t, o, "loses its rows in a crash", nil)
	o = place(t, s)
	connect(t, s, "DROP TABLE "+o.TablePrefix+"entries")
	refused(t, o, "is gone", tokenstore.ErrForeign)
	o = place(t, s)
	// As an older program has made it, whose acquire knows no unordered entries.
	connect(t, s, "ALTER FUNCTION "+o.TablePrefix+"acquire_2 RENAME TO "+o.TablePrefix+"acquire")
	refused(t, o, "functions of the store are missing", nil)
	if err := Init(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	_ = open(t, o).Close() // repaired
	o.URL += "&default_transaction_read_only=on"
	refused(t, o, "takes no writes", nil)

	o = place(t, s)
	connect(t, s, "CREATE ROLE "+o.TablePrefix+"reader LOGIN")
	reader := o
	reader.URL = strings.Replace(o.URL, "fenceproxy@", o.TablePrefix+"reader@", 1)
	refused(t, reader, "", nil)
	connect(t, s, "GRANT SELECT ON "+o.TablePrefix+"about, "+o.TablePrefix+"keys TO "+o.TablePrefix+"reader")
	refused(t, reader, "may not use the table", nil)
}

// TestInitTwice: what is there stays.
func TestInitTwice(t *testing.T) {
	t.Parallel()
	o := place(t, sharedServer(t))
	b := open(t, o)
	defer func() { _ = b.Close() }()
	if err := b.Import(t.Context(), []dump.Record{{Key: "k", Record: tokenstore.Record{Highest: tok(7)}}}); err != nil {
		t.Fatal(err)
	}
	if err := Init(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if rec, ok, err := b.Load(t.Context(), "k"); err != nil || !ok || rec.Highest != tok(7) {
		t.Errorf("Load = %+v, %v, %v", rec, ok, err)
	}
}

// TestStandby: a hot standby is refused, and passed over where the URL also
// names the primary.
func TestStandby(t *testing.T) {
	t.Parallel()
	primary := ownServer(t)
	o := place(t, primary)
	standby, err := primary.Standby()
	if err != nil {
		t.Fatal(err)
	}
	standby.CloseAfter(t)

	behind := o.through(standby.Address())
	refused(t, behind, "hot standby", errStandby)
	if err := Init(t.Context(), behind); !errors.Is(err, errStandby) {
		t.Errorf("Init on a standby: %v", err)
	}
	both := o
	both.URL = primary.URL(standby.Address() + "," + primary.Address())
	log, logs := logger()
	both.Logger = log
	b := open(t, both)
	defer func() { _ = b.Close() }()
	if _, _, err := b.Load(context.Background(), "k"); err != nil {
		t.Errorf("Load through the list of hosts: %v", err)
	}
	if logs.FilterMessageSnippet("none is synchronous").Len() != 1 {
		t.Errorf("the standby is not synchronous, and nothing was said: %v", logs.All())
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	s := ownServer(t, "fsync=off", "synchronous_commit=off")
	o := place(t, s)
	log, logs := logger()
	o.Logger = log
	_ = open(t, o).Close()
	for _, want := range []string{"fsync", "synchronous_commit"} {
		if logs.FilterMessageSnippet(want).Len() != 1 {
			t.Errorf("nothing was said of %s: %v", want, logs.All())
		}
	}
}

// A server that is just stopping says nothing of the tables: nobody is told to
// take others.
func TestPassing(t *testing.T) {
	for err, want := range map[error]bool{
		&pgconn.PgError{Code: "57P01"}: true,  // stopped by the administrator
		&pgconn.PgError{Code: "57P03"}: true,  // starting up
		&pgconn.PgError{Code: "42703"}: false, // no such column
		&pgconn.PgError{Code: "42501"}: false, // no right
		io.ErrUnexpectedEOF:            true,
		pgx.ErrNoRows:                  false,
		&net.OpError{Op: "read"}:       true,
	} {
		if got := passing(fmt.Errorf("in find: %w", err)); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
