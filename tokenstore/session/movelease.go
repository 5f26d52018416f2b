package session

import (
	"context"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

// ExportLeases writes the leases of a store that no proxy uses, behind its
// records. One that is damaged is an error: whoever holds it would not be
// known in the other store.
func ExportLeases(ctx context.Context, b LeaseBackend, w *dump.Writer) error {
	held, damaged, err := b.Leases(ctx)
	if err != nil {
		return err
	}
	if len(damaged) > 0 {
		return damaged[0]
	}
	byKey := func(a, b tokenstore.KeyLease) int { return strings.Compare(string(a.Key), string(b.Key)) }
	slices.SortFunc(held, byKey)
	for _, l := range held {
		if err := w.AddLease(l); err != nil {
			return err
		}
	}
	return nil
}

// ImportLeases puts leases of another store where nobody holds one here. One
// that is held stays: its holder may be at work.
func ImportLeases(ctx context.Context, b LeaseBackend, leases []tokenstore.KeyLease) error {
	for _, l := range leases {
		if _, _, err := b.SwapLease(ctx, LeaseSwap{Key: l.Key, Next: l.Lease}); err != nil {
			return err
		}
	}
	return nil
}
