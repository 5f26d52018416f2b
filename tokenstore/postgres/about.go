package postgres

import (
	"bytes"
	"context"
	"errors"
)

// Update reads, and writes if nobody has written since: change runs with no
// lock held. It is called again where somebody has.
func (b *Backend) Update(ctx context.Context, change func(old []byte) ([]byte, error)) error {
	for {
		var old []byte
		there := false
		if err := call(ctx, b.work, b.sql.about, nil, []any{&old}, func() error { there = true; return nil }); err != nil {
			return err
		}
		if !there {
			return errors.New("the one row of the store's table about is gone; restore the database from a backup that is not older than its last raise")
		}
		next, err := change(bytes.Clone(old))
		if err != nil || bytes.Equal(next, old) {
			return err
		}
		var done bool
		if err := call(ctx, b.work, b.sql.change, []any{old, next}, []any{&done}, noRow); err != nil || done {
			return err
		}
	}
}
