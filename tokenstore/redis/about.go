package redis

import (
	"bytes"
	"context"
)

// Update implements session.Backend: it compares and sets.
func (b *Backend) Update(ctx context.Context, change func(old []byte) ([]byte, error)) error {
	for {
		a, err := b.ok(ctx, b.main, rememberedScript)
		if err != nil {
			return err
		}
		text, err := a.text(0)
		if err != nil {
			return err
		}
		exists, err := a.number(1)
		if err != nil {
			return err
		}
		var old []byte
		if exists == 1 {
			old = []byte(text)
		}
		next, err := change(bytes.Clone(old))
		if err != nil {
			return err
		}
		if bytes.Equal(next, old) && (next == nil) == (old == nil) {
			return nil
		}
		keep := 1
		if next == nil {
			keep = 0
		}
		if a, err = b.run(ctx, b.main, rememberScript, text, exists, next, keep); err != nil {
			return err
		}
		if a.word == "ok" {
			return nil
		}
	}
}
