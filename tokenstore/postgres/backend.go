package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Backend is the store as one proxy reaches it.
type Backend struct {
	// work is for calls that may have to wait for a key, and life for those that
	// keep the session: a hot key must not cost the session.
	work, life *pgxpool.Pool
	listen     *pgx.ConnConfig // for Watch
	channel    string          // of notifications, one for each store
	sql        statements
	notes      *notes
}

var _ session.Movable = (*Backend)(nil)

func newBackend(config *pgxpool.Config, n names, id [16]byte) (*Backend, error) {
	life := config.Copy()
	life.MaxConns, life.MinConns, life.MinIdleConns = lifeConns, 0, 0
	b := &Backend{sql: n.statements(), listen: config.ConnConfig.Copy(), channel: fmt.Sprintf("fenceproxy_%x", id)}
	var err error
	// The context ends when they are made: it bounds nothing of what they do.
	if b.work, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return nil, err
	}
	if b.life, err = pgxpool.NewWithConfig(context.Background(), life); err != nil {
		b.work.Close()
		return nil, err
	}
	b.notes = startNotes(b)
	return b, nil
}

// Close gives the connections back, after the last hints are out.
func (b *Backend) Close() error {
	b.notes.stop()
	b.work.Close()
	b.life.Close()
	return nil
}

func uuid(s session.ID) pgtype.UUID { return pgtype.UUID{Bytes: s, Valid: true} }

// micros is a duration in microseconds, which are what PostgreSQL counts in:
// rounded up, and one more for what the database's clock cuts off.
func micros(d time.Duration) int64 {
	return int64((d+time.Microsecond-1)/time.Microsecond) + 1
}

// Begin implements session.Backend, as do the methods that follow.
func (b *Backend) Begin(ctx context.Context, s session.ID, ttl time.Duration) error {
	return call(ctx, b.life, b.sql.begin, []any{uuid(s), micros(ttl)}, nothing, noRow)
}

// KeepAlive is one round trip. The raises that have overtaken an entry are read
// in its own transaction, so it needs no Watch (R7).
func (b *Backend) KeepAlive(ctx context.Context, s session.ID, ttl time.Duration) (overtaken []tokenstore.Mark, err error) {
	var said string
	var key, raw []byte
	over, done := false, false
	err = call(ctx, b.life, b.sql.keepAlive, []any{uuid(s), micros(ttl)}, []any{&said, &key, &raw}, func() error {
		switch said {
		case "overtaken":
			m := tokenstore.Mark{Key: tokenstore.Key(key)}
			if err := m.Token.UnmarshalBinary(raw); err != nil {
				return err
			}
			overtaken = append(overtaken, m)
		case "over":
			over = true
		case "done":
			done = true
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case over:
		return nil, session.ErrSessionOver
	case !done:
		return nil, errNoEnd
	}
	return overtaken, nil
}

// End waits for acquires of the session that are under way.
func (b *Backend) End(ctx context.Context, s session.ID) error {
	return call(ctx, b.work, b.sql.end, []any{uuid(s)}, nothing, noRow)
}

// Sessions writes down which sessions have run out before it tells. One that
// may still get an entry counts as alive until the next call.
func (b *Backend) Sessions(ctx context.Context) (map[session.ID]bool, error) {
	all := map[session.ID]bool{}
	var id pgtype.UUID
	var alive bool
	err := call(ctx, b.life, b.sql.sessions, nil, []any{&id, &alive}, func() error {
		all[id.Bytes] = alive
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// errNoEnd is about an answer that says neither yes nor no.
var errNoEnd = errors.New("the answer of PostgreSQL has no end")

// nothing is what a function without a result returns, in a row of its own.
var nothing = []any{nil}

func noRow() error { return nil }
