package main

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/proxy/admin"
	"github.com/fenceproxy/fenceproxy/proxy/lease"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// What the operator sees of leases.

// auditLease writes what became of a lease. It has happened, and is not undone
// where the line cannot be written: then the log has it.
func (s *service) auditLease(e lease.Event) {
	line := admin.LeaseLine{Time: e.Time, Result: string(e.What), Key: string(e.Key), Holder: e.Holder,
		Token: tokenstore.Decimal.Print(e.Token), TTL: wire.Duration(e.TTL)}
	if err := s.audit.WriteLease(line); err != nil {
		s.log.Error("the audit line about a lease cannot be written", zap.Error(err), zap.Any("line", line))
	}
}

// look is nil where leases are off.
func (l *leases) look() func(context.Context, tokenstore.Key) (*wire.KeyLease, error) {
	if l == nil {
		return nil
	}
	return func(ctx context.Context, key tokenstore.Key) (*wire.KeyLease, error) {
		st, err := l.issuer.Status(ctx, key)
		switch {
		case errors.Is(err, lease.ErrFree):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return &wire.KeyLease{Holder: st.Holder, Token: tokenstore.Decimal.Print(st.Token), ExpiresIn: wire.Duration(st.Left.Truncate(time.Millisecond)), Waiting: st.Waiting}, nil
	}
}
