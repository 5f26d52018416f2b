package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// oldest is the first version of PostgreSQL that is supported.
const oldest = 140000

// Open checks the store and connects to it. It refuses what is unsafe, and
// warns of what may be. Its errors wrap tokenstore.ErrMissing and ErrForeign
// where that is what is wrong.
func Open(ctx context.Context, o Options) (*Backend, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	config, err := configure(o)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, unreachable(err)
	}
	defer func() { hangUp(conn) }()
	if err := checkServer(ctx, conn, o); err != nil {
		return nil, err
	}
	n, err := find(ctx, conn, o)
	if err == nil {
		err = checkStore(ctx, conn, n)
	}
	if err != nil {
		return nil, err
	}
	var id pgtype.UUID
	if err := conn.QueryRow(ctx, n.sql("SELECT id FROM {about}")).Scan(&id); err != nil {
		return nil, err
	}
	warn(ctx, conn, o.Logger)
	return newBackend(config, n, id.Bytes)
}

// checkServer refuses a server that cannot keep marks.
func checkServer(ctx context.Context, q querier, o Options) error {
	var version int
	var readOnly bool
	err := q.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('transaction_read_only')::bool").Scan(&version, &readOnly)
	switch {
	case err != nil:
		return err
	case version < oldest:
		return fmt.Errorf("this PostgreSQL is version %d.%d, and %d or later is needed", version/10000, version%10000, oldest/10000)
	case readOnly:
		return errors.New("this PostgreSQL takes no writes from this role: default_transaction_read_only is on; take it out of the role, the database and store.postgres.url")
	}
	return nil
}

// checkStore looks for what would fail only later, or lose marks.
func checkStore(ctx context.Context, q querier, n names) error {
	rows, err := q.Query(ctx, `SELECT c.relname, c.relpersistence::text, has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
			AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
		FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = $1 AND c.relname = ANY ($2)`, n.schema, n.all(tables))
	if err != nil {
		return err
	}
	found := map[string]bool{}
	var table, persistence string
	var allowed bool
	_, err = pgx.ForEachRow(rows, []any{&table, &persistence, &allowed}, func() error {
		found[table] = true
		switch {
		case persistence != "p": // emptied after a crash
			return fmt.Errorf("the table %s.%s loses its rows in a crash of PostgreSQL; make it safe with ALTER TABLE %s SET LOGGED while no proxy runs",
				n.schema, table, pgx.Identifier{n.schema, table}.Sanitize())
		case !allowed:
			return fmt.Errorf("the role of store.postgres.url may not use the table %s.%s; grant it SELECT, INSERT, UPDATE and DELETE on the tables %s*", n.schema, table, n.prefix)
		}
		return nil
	})
	if err != nil {
		return err
	}
	leases := n.prefix + "leases" // which stores of before there were any lack, with its functions
	for _, name := range n.all(tables) {
		if !found[name] && name != leases {
			return fmt.Errorf("%w: the table %s.%s is gone, and its marks with it; restore the database from a backup that is not older than its last raise, "+
				"or make a new store with a higher epoch for every rule", tokenstore.ErrForeign, n.schema, name)
		}
	}
	var there int
	err = q.QueryRow(ctx, "SELECT count(DISTINCT p.proname) FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace WHERE s.nspname = $1 AND p.proname = ANY ($2)",
		n.schema, n.all(functions)).Scan(&there)
	if err == nil && there < len(functions) {
		err = fmt.Errorf("%d functions of the store are missing in schema %s; put them in with fenceproxy store init, which keeps all marks", len(functions)-there, n.schema)
	}
	if err == nil && !found[leases] {
		err = fmt.Errorf("the table %s.%s is gone, and who holds which lease with it; make it again with fenceproxy store init, which keeps all marks and the counter of tokens", n.schema, leases)
	}
	return err
}

// warn tells of settings under which acknowledged raises can be lost. Nobody
// but the operator knows whether they will be.
func warn(ctx context.Context, q querier, log *zap.Logger) {
	var syncCommit, fsync, pages, standbys string
	var replicas int
	err := q.QueryRow(ctx, `SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
		current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)`).Scan(&syncCommit, &fsync, &pages, &standbys, &replicas)
	if err != nil {
		log.Warn("the settings of PostgreSQL cannot be read, so nothing is known of its durability", zap.Error(err))
		return
	}
	if fsync != "on" || pages != "on" {
		log.Warn("PostgreSQL may lose acknowledged raises when its machine crashes, and stale writes would then pass: fsync and full_page_writes must be on",
			zap.String("fsync", fsync), zap.String("full_page_writes", pages))
	}
	if syncCommit != "on" && syncCommit != "remote_apply" {
		log.Warn("synchronous_commit is not on: the proxy turns it on for its own transactions, and whatever else is written here may be lost",
			zap.String("synchronous_commit", syncCommit))
	}
	if replicas > 0 && strings.TrimSpace(standbys) == "" {
		log.Warn("PostgreSQL has standbys and none is synchronous: a failover to one may lose acknowledged raises, and stale writes would then pass; set synchronous_standby_names",
			zap.Int("standbys", replicas))
	}
}
