package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// silence is after how long without a hint the connection is tried: one that
// the network has dropped would be listened to for ever.
const silence = 5 * time.Second

// Watch passes the hints of other proxies on. Anybody in the database can send
// one, so that it is not believed but makes the Store look.
func (b *Backend) Watch(ctx context.Context, sink session.Sink) error {
	conn, err := pgx.ConnectConfig(ctx, b.listen)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	if err := ask(ctx, conn, "LISTEN "+b.channel); err != nil {
		return err
	}
	session.TellListening(sink)
	for {
		wait, cancel := context.WithTimeout(ctx, silence)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			if key, ok := b.notes.readLease(n.Payload); ok && n.Channel == b.channel {
				session.TellLeased(sink, key)
			}
			if key, ok := b.notes.read(n.Payload); ok && n.Channel == b.channel {
				sink.Changed(key)
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !pgconn.Timeout(err):
			return err
		default:
			if err := ask(ctx, conn, "-- still there?"); err != nil {
				return fmt.Errorf("the connection that listens does not answer: %w", err)
			}
		}
	}
}

// ask sends one statement, and gives up on a server that does not answer.
func ask(ctx context.Context, conn *pgx.Conn, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	_, err := conn.Exec(ctx, sql)
	return err
}
