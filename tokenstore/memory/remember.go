package memory

import (
	"context"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Remember implements tokenstore.Rememberer. It compares with what it was told
// last, so that a change that a durable store refuses is refused here too.
func (s *Store) Remember(ctx context.Context, c tokenstore.Configuration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	return s.remembered.Take(c)
}
