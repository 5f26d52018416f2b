package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// markerForm is the marker of the format of today, with the store's identity.
var markerForm = regexp.MustCompile(`^fenceproxy 1 [0-9a-f]{32}$`)

// Init makes a store where there is none yet. Where there is one it stays as it
// is.
func Init(ctx context.Context, o Options) error {
	o.fill()
	c, err := o.client(1)
	if err != nil {
		return err
	}
	return errors.Join(at(c, create(ctx, c, o.Prefix)), c.Close())
}

func create(ctx context.Context, c *redis.Client, prefix string) error {
	s, err := ask(ctx, c)
	if err == nil {
		err = s.refuse()
	}
	if err != nil {
		return err
	}
	if _, err = marker(ctx, c, prefix); !errors.Is(err, tokenstore.ErrMissing) {
		return err
	}
	switch n, err := c.Exists(ctx, prefix+"keys", prefix+"sessions").Result(); {
	case err != nil:
		return err
	case n > 0:
		return fmt.Errorf("%w: there are records of a store at prefix %q, and its marker is gone; restore it, or use another prefix", tokenstore.ErrForeign, prefix)
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	if err := c.SetNX(ctx, prefix+"store", "fenceproxy 1 "+hex.EncodeToString(id[:]), 0).Err(); err != nil {
		return err
	}
	_, err = marker(ctx, c, prefix) // somebody else may have been first
	return err
}

// Open opens a store that Init has made. Its errors wrap
// tokenstore.ErrMissing, tokenstore.ErrForeign, or say what is unsafe with the
// server. It warns of what the server may lose: whoever calls it has accepted
// that.
func Open(ctx context.Context, o Options) (*Backend, error) {
	o.fill()
	main, err := o.client(64)
	if err != nil {
		return nil, err
	}
	keep, err := o.client(4)
	if err != nil {
		return nil, errors.Join(err, main.Close())
	}
	b := &Backend{prefix: o.Prefix, log: o.Logger, main: main, keep: keep, acked: map[session.ID]uint64{}}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(at(main, err), b.Close())
	}
	return b, nil
}

func (b *Backend) open(ctx context.Context) error {
	s, err := ask(ctx, b.main)
	if err == nil {
		err = s.refuse()
	}
	if err != nil {
		return err
	}
	if b.marker, err = marker(ctx, b.main, b.prefix); err != nil {
		return err
	}
	if _, err := b.Sessions(ctx); err != nil { // a script that writes, as all do
		return err
	}
	b.log.Warn("a failover or crash of Redis can lose raises that were acknowledged, and then older writes pass, as was accepted (accept_lost_writes)",
		zap.String("server", b.main.Options().Addr), zap.Int("replicas", s.replicas))
	for _, risk := range s.risks() {
		b.log.Warn("Redis loses more than it has to", zap.String("why", risk))
	}
	return nil
}

// marker reads the marker of a store.
func marker(ctx context.Context, c *redis.Client, prefix string) (string, error) {
	m, err := c.Get(ctx, prefix+"store").Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", fmt.Errorf("%w: no store at prefix %q; if it never had one, make it with fenceproxy store init; if it had, Redis has lost it, and with it the highest tokens", tokenstore.ErrMissing, prefix)
	case err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE"):
		return "", err
	case err != nil || !markerForm.MatchString(m):
		return "", fmt.Errorf("%w: %q is %q, of another program or version; use another prefix, or the version that made it", tokenstore.ErrForeign, prefix+"store", m)
	}
	return m, nil
}

// at says which server an error is about.
func at(c *redis.Client, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redis at %s: %w", c.Options().Addr, err)
}
