package etcd

import (
	"context"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// AcquireWith is one try at Acquire of several keys, with something that
// happens between its two steps. It reports whether it was committed.
func (b *Backend) AcquireWith(ctx context.Context, s session.ID, wants []session.Want, between func()) (done bool, err error) {
	values, err := b.read(ctx, s, wants)
	if err != nil {
		return false, err
	}
	next, _, err := decide(wants, values)
	if err != nil {
		return false, err
	}
	between()
	_, _, done, err = b.commit(ctx, s, wants, next, values)
	return done, err
}
