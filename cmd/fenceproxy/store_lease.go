package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// verifyLeases reads every lease of a shared store, and returns how many are
// damaged.
func verifyLeases(c storeCall, b session.LeaseBackend) (damaged int, err error) {
	var all []*tokenstore.DamagedError
	err = inTime(c, func(ctx context.Context) error {
		_, all, err = b.Leases(ctx)
		return err
	})
	for _, d := range all {
		fmt.Fprintln(c.out, d)
	}
	return len(all), err
}

func exportLeases(c storeCall, b session.LeaseBackend, w *dump.Writer) error {
	return inTime(c, func(ctx context.Context) error { return session.ExportLeases(ctx, b, w) })
}

// importLeases takes in the leases of a dump that was read to its end.
func importLeases(c storeCall, b session.LeaseBackend, r *dump.Reader) error {
	for part := range slices.Chunk(r.Leases(), 100) {
		if err := inTime(c, func(ctx context.Context) error { return session.ImportLeases(ctx, b, part) }); err != nil {
			return err
		}
	}
	return nil
}
