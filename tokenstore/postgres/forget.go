package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Forget implements session.Backend, in five short round trips: it is rare, and
// needs nothing of the schema. The key's row is locked first, as by an acquire:
// the entry of one that was there before is seen by the statement behind it, and
// one that comes later waits, finds no row, and makes it anew.
func (b *Backend) Forget(ctx context.Context, key tokenstore.Key, was tokenstore.Record) error {
	conn, err := b.work.Acquire(ctx)
	if err != nil {
		return err
	}
	defer giveBack(conn)
	data := conn.Conn().PgConn().CustomData()
	delete(data, warning)
	refusal := error(nil)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, b.sql.durable); err != nil {
			return err
		}
		var r row
		err := tx.QueryRow(ctx, b.sql.lock, []byte(key)).Scan(&r.highest, &r.raisedAt, &r.holder)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		rec, err := r.record(key)
		if err != nil {
			return err
		}
		if !rec.Same(was) {
			refusal = &tokenstore.InUseError{Key: key, Why: "its token was raised meanwhile"}
			return nil
		}
		var open, leased bool
		if err := tx.QueryRow(ctx, b.sql.isOpen, []byte(key)).Scan(&open, &leased); err != nil {
			return err
		}
		if leased {
			refusal = &tokenstore.InUseError{Key: key, Why: "its lease is held"}
			return nil
		}
		if open {
			refusal = &tokenstore.InUseError{Key: key, Why: "a proxy has an entry open on it"}
			return nil
		}
		_, err = tx.Exec(ctx, b.sql.forget, []byte(key))
		return err
	})
	if err != nil {
		return err
	}
	if why, warned := data[warning]; warned {
		return fmt.Errorf("PostgreSQL warns that the result may not last: %v", why)
	}
	return refusal
}
