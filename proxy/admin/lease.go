package admin

import (
	"context"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// LeaseLine is the line about what became of a lease. Nobody vouches for its
// holder, who has chosen that name, but for what the listener asks to be shown.
type LeaseLine struct {
	Time   time.Time     `json:"time"`
	Audit  string        `json:"audit"`  // lease
	Result string        `json:"result"` // granted, released, lost
	Key    string        `json:"key"`
	Holder string        `json:"holder"`
	Token  string        `json:"token"`
	TTL    wire.Duration `json:"ttl"`
}

// WriteLease writes a line about a lease, in one piece.
func (a *Audit) WriteLease(l LeaseLine) error {
	l.Time, l.Audit = l.Time.UTC(), "lease"
	return a.write(l)
}

// lease looks for who holds the lease of a key, where leases are on. highest is what
// is on record, zero for nothing.
func (a *api) lease(ctx context.Context, key tokenstore.Key, highest tokenstore.Token) (*wire.KeyLease, error) {
	if a.Lease == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	held, err := a.Lease(ctx, key)
	if held == nil || err != nil {
		return nil, err
	}
	told := *held
	if token, err := tokenstore.Decimal.ParseMark(told.Token); err == nil { // as leases have them
		told.Stale = token.Less(highest)
	}
	return &told, nil
}
