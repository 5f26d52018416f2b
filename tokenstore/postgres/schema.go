package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// format is the version of the tables and functions that is known here.
const format = 1

//go:embed schema.sql
var schemaSQL string

// tables and functions are the names in schema.sql. A function whose meaning has
// changed has a number more: proxies of both versions then call their own, and
// one whose function nobody has put in does not start.
var (
	tables    = []string{"about", "keys", "sessions", "entries", "leases"}
	functions = []string{"durable", "begin", "bury", "keep_alive", "sessions_alive", "end_session", "acquire_2", "remove", "restore", "change", "swap_lease", "raise_granted"}
)

// statements are the calls, with the store's own names.
type statements struct {
	begin, keepAlive, end, sessions, acquire, remove, restore, change string
	load, look, entries, about, list                                  string
	leaseState, swapLease, leases, raiseGranted                       string
	durable, lock, isOpen, forget                                     string
}

func (n names) statements() statements {
	return statements{
		begin:     n.sql("SELECT {begin}($1, $2)"),
		keepAlive: n.sql("SELECT * FROM {keep_alive}($1, $2)"),
		end:       n.sql("SELECT {end_session}($1)"),
		sessions:  n.sql("SELECT * FROM {sessions_alive}()"),
		acquire:   n.sql("SELECT * FROM {acquire_2}($1, $2, $3, $4, $5)"),
		remove:    n.sql("SELECT * FROM {remove}($1, $2, $3, $4)"),
		restore:   n.sql("SELECT {restore}($1, $2, $3, $4)"),
		change:    n.sql("SELECT {change}($1, $2)"),
		load:      n.sql("SELECT highest, raised_at, holder FROM {keys} WHERE key = $1"),
		look: n.sql(`SELECT d.key, k.highest, k.raised_at, k.holder, e.token, e.session, e.nonce, e.overtaken
			FROM unnest($1::bytea[]) d(key) LEFT JOIN {keys} k ON k.key = d.key LEFT JOIN {entries} e ON e.key = d.key ORDER BY d.key`),
		entries: n.sql("SELECT key, token, nonce FROM {entries} WHERE session = $1"),
		about:   n.sql("SELECT value FROM {about}"),
		leaseState: n.sql(`SELECT l.value, a.granted, k.highest, k.raised_at, k.holder
			FROM {about} a LEFT JOIN {leases} l ON l.key = $1 LEFT JOIN {keys} k ON k.key = $1 WHERE a.one`),
		swapLease:    n.sql("SELECT {swap_lease}($1, $2, $3, $4, $5, $6, $7)"),
		leases:       n.sql("SELECT key, value FROM {leases} ORDER BY key"),
		raiseGranted: n.sql("SELECT {raise_granted}($1)"),
		durable:      n.sql("SELECT {durable}()"),
		lock:         n.sql("SELECT highest, raised_at, holder FROM {keys} WHERE key = $1 FOR UPDATE"),
		isOpen:       n.sql("SELECT EXISTS (SELECT FROM {entries} WHERE key = $1), EXISTS (SELECT FROM {leases} WHERE key = $1)"),
		forget:       n.sql("DELETE FROM {keys} WHERE key = $1"),
		list:         n.sql("SELECT key, highest, raised_at, holder FROM {keys} WHERE key > $1 AND key >= $2 AND ($3::bytea IS NULL OR key < $3) ORDER BY key LIMIT $4"),
	}
}

// names puts the store's own names into SQL. They are complete, so that no
// search_path can lead two proxies to different tables.
type names struct{ schema, prefix string }

func (n names) sql(text string) string {
	var pairs []string
	for _, name := range append(append([]string{}, tables...), functions...) {
		pairs = append(pairs, "{"+name+"}", pgx.Identifier{n.schema, n.prefix + name}.Sanitize())
	}
	pairs = append(pairs, "{entries_session}", pgx.Identifier{n.prefix + "entries_session"}.Sanitize()) // is where its table is
	return strings.NewReplacer(pairs...).Replace(text)
}

func (n names) all(of []string) []string {
	full := make([]string, len(of))
	for i := range of {
		full[i] = n.prefix + of[i]
	}
	return full
}

// Init makes the tables and functions of a store. Where they are already, it
// only puts the functions in again.
func Init(ctx context.Context, o Options) error {
	if err := o.fill(); err != nil {
		return err
	}
	config, err := configure(o)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return unreachable(err)
	}
	defer func() { hangUp(conn) }()
	if err := checkServer(ctx, conn, o); err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Two of them at once would both find nothing.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0)), set_config('synchronous_commit', 'on', true)", o.TablePrefix); err != nil {
			return err
		}
		n, err := find(ctx, tx, o)
		missing := errors.Is(err, tokenstore.ErrMissing)
		if err != nil && !missing {
			return err
		}
		makeTables, makeFunctions, _ := strings.Cut(schemaSQL, "--:functions")
		if missing {
			if n, err = whereToMake(ctx, tx, o); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, n.sql(makeTables)); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, n.sql(makeFunctions))
		return err
	})
	if err != nil && !errors.Is(err, tokenstore.ErrForeign) {
		err = fmt.Errorf("the store cannot be made in PostgreSQL: %w; the role of store.postgres.url must be allowed to create tables and functions in its schema", err)
	}
	return err
}

// passing reports whether an error is the server's or the connection's trouble,
// and says nothing of the tables: a server that is just stopping, a connection
// that ended. What the statement itself does wrong is of class 42 (no such
// column, no right to read it).
func passing(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return !strings.HasPrefix(refused.Code, "42")
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.Timeout(err) || errors.Is(err, context.Canceled)
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// find returns the names of the store that the search_path leads to, whose
// format is known. Its errors wrap ErrMissing and ErrForeign.
func find(ctx context.Context, q querier, o Options) (names, error) {
	n := names{prefix: o.TablePrefix}
	err := q.QueryRow(ctx, "SELECT s.nspname FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace WHERE c.oid = to_regclass($1)", n.prefix+"about").Scan(&n.schema)
	if errors.Is(err, pgx.ErrNoRows) {
		return n, fmt.Errorf("%w: the database has no table %sabout; make the store with fenceproxy store init, or check store.postgres", tokenstore.ErrMissing, n.prefix)
	}
	if err != nil {
		return n, err
	}
	var version int
	if err := q.QueryRow(ctx, n.sql("SELECT format FROM {about}")).Scan(&version); err != nil {
		if passing(err) {
			return n, unreachable(err)
		}
		return n, fmt.Errorf("%w: the table %sabout cannot be read: %w; take another store.postgres.table_prefix if it is not fenceproxy's", tokenstore.ErrForeign, n.prefix, err)
	}
	if version != format {
		return n, fmt.Errorf("%w: its tables have format %d, and this program knows %d; use a program of the version that made them", tokenstore.ErrForeign, version, format)
	}
	return n, nil
}

func whereToMake(ctx context.Context, q querier, o Options) (names, error) {
	n := names{prefix: o.TablePrefix}
	var schema *string
	if err := q.QueryRow(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
		return n, err
	}
	if schema == nil {
		return n, errors.New("no schema of the search_path exists")
	}
	n.schema = *schema
	return n, nil
}
