package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connectTimeout bounds how long a connection that is being made keeps its
	// place in a pool.
	connectTimeout = 3 * time.Second
	workConns      = 16
	lifeConns      = 4
)

var errStandby = errors.New("this PostgreSQL is a hot standby, which takes no writes and may lack the last raises; name the primary, or all servers of the cluster, in store.postgres.url")

// settings of every connection. A proxy that vanished in the middle of a call
// must not keep its locks for long, nor one that is stopped between two steps of
// a transaction, whose kernel still answers for it. The plans are made once and by index: a
// plan that was made for an almost empty table would be taken for a large one
// too, and read all of it in each call.
const settings = `SELECT
	CASE current_setting('statement_timeout') WHEN '0' THEN set_config('statement_timeout', '30s', false) END,
	CASE current_setting('idle_in_transaction_session_timeout') WHEN '0' THEN set_config('idle_in_transaction_session_timeout', '5s', false) END,
	CASE current_setting('application_name') WHEN '' THEN set_config('application_name', 'fenceproxy', false) END,
	set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '3', false),
	set_config('tcp_user_timeout', '20s', false),
	set_config('enable_seqscan', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false)`

// configure reads the URL, and adds what every connection of the store needs.
func configure(o Options) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("store.postgres.url: %w", err) // without the password
	}
	if plain, err := pgx.ParseConfig(o.URL); err == nil && plain.RuntimeParams["pool_max_conns"] == "" {
		config.MaxConns = workConns
	}
	c := config.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	// For each of several hosts, so that the primary is found among them, again
	// after a failover.
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		result := conn.ExecParams(ctx, "SELECT pg_is_in_recovery()", nil, nil, nil, nil).Read()
		if result.Err != nil {
			return result.Err
		}
		if len(result.Rows) != 1 || string(result.Rows[0][0]) != "f" {
			return errStandby
		}
		return nil
	}
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.ExecParams(ctx, settings, nil, nil, nil, nil).Read().Err
	}
	c.OnNotice = noteWarning
	// A ping would be a second round trip; whether the server has hung up is
	// known without one.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) { return quiet(conn.PgConn().Conn()), nil }
	return config, nil
}

func unreachable(err error) error {
	if errors.Is(err, errStandby) {
		return err
	}
	return fmt.Errorf("PostgreSQL cannot be reached: %w; check store.postgres.url, and that the server runs", err) // without the password
}

// hangUp closes a connection, and waits for no server that does not answer.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// warning is where a connection keeps the last warning of a call.
const warning = "fenceproxy: warning"

// noteWarning: a commit whose wait for the synchronous standbys was canceled is
// answered like any other, but for a warning. So after a warning nothing is
// known.
func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warning] = n.Message
	}
}

// call runs one statement, which is one transaction, on a connection of its
// own, and row for each row of its answer. What row has noted counts only where
// the error is nil: only then the transaction has committed, since the server
// says that it is ready for the next one. Nothing is ever repeated.
func call(ctx context.Context, pool *pgxpool.Pool, sql string, args []any, scans []any, row func() error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer giveBack(conn)
	data := conn.Conn().PgConn().CustomData()
	delete(data, warning)
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	if _, err = pgx.ForEachRow(rows, scans, row); err != nil {
		return err
	}
	if why, warned := data[warning]; warned {
		return fmt.Errorf("PostgreSQL warns that the result may not last: %v", why)
	}
	return nil
}

// giveBack lets a connection go that a call has broken off. The pool would
// keep its place for as long as pgx tries to cancel the call at the server: 15
// seconds, where that cannot be reached.
func giveBack(conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() {
		conn.Hijack()
		return
	}
	conn.Release()
}
