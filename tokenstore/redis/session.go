package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Begin implements session.Backend.
func (b *Backend) Begin(ctx context.Context, s session.ID, ttl time.Duration) error {
	a, err := b.run(ctx, b.keep, beginScript, encodeID(s), microseconds(ttl))
	if err == nil && a.word != "ok" {
		err = fmt.Errorf("session %s was used before", s)
	}
	return err
}

// KeepAlive implements session.Backend. The proof of R7 comes with its own
// transaction, and needs no watch.
func (b *Backend) KeepAlive(ctx context.Context, s session.ID, ttl time.Duration) (overtaken []tokenstore.Mark, err error) {
	a, err := b.ok(ctx, b.keep, keepAliveScript, encodeID(s), b.known(s), microseconds(ttl))
	if err != nil {
		return nil, err
	}
	pairs, err := a.texts(0, 2)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(pairs); i += 2 {
		e, err := decodeOwn(s, pairs[i])
		if err != nil {
			return nil, err
		}
		highest, err := decodeToken(pairs[i+1])
		if err != nil {
			return nil, err
		}
		overtaken = append(overtaken, tokenstore.Mark{Key: e.Key, Token: highest})
	}
	return overtaken, nil
}

// End implements session.Backend.
func (b *Backend) End(ctx context.Context, s session.ID) error {
	_, err := b.ok(ctx, b.main, endScript, encodeID(s))
	if err == nil {
		b.mu.Lock()
		delete(b.acked, s)
		b.mu.Unlock()
	}
	return err
}

// Sessions implements session.Backend.
func (b *Backend) Sessions(ctx context.Context) (map[session.ID]bool, error) {
	a, err := b.ok(ctx, b.main, sessionsScript)
	if err != nil {
		return nil, err
	}
	pairs, err := a.list(0)
	if err != nil || len(pairs)%2 != 0 {
		return nil, errShape
	}
	all := make(map[session.ID]bool, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, err := part[string](pairs, i)
		if err != nil {
			return nil, err
		}
		s, err := decodeID(name)
		if err != nil {
			return nil, err
		}
		alive, err := part[int64](pairs, i+1)
		if err != nil {
			return nil, err
		}
		all[s] = alive == 1
	}
	return all, nil
}
