package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var (
	_ tokenstore.Lister    = (*Store)(nil)
	_ tokenstore.Forgetter = (*Store)(nil)
)

// List implements tokenstore.Lister. Each page looks at every key: this store
// is for trying out.
func (s *Store) List(ctx context.Context, prefix string, after tokenstore.Key, limit int) (page []tokenstore.Listed, next tokenstore.Key, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, "", err
	}
	for key, rec := range s.records {
		if key > after && strings.HasPrefix(string(key), prefix) {
			page = append(page, tokenstore.Listed{Key: key, Record: rec})
		}
	}
	slices.SortFunc(page, func(a, b tokenstore.Listed) int { return strings.Compare(string(a.Key), string(b.Key)) })
	if n := tokenstore.PageSize(limit); len(page) > n {
		page, next = page[:n], page[n-1].Key
	}
	return page, next, nil
}

// Forget implements tokenstore.Forgetter.
func (s *Store) Forget(ctx context.Context, key tokenstore.Key, was tokenstore.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	rec, ok := s.records[key]
	switch l := s.leases[key]; {
	case l.Held():
		return &tokenstore.InUseError{Key: key, Why: fmt.Sprintf("its lease is held by %q", l.Holder)}
	case ok && !rec.Same(was):
		return &tokenstore.InUseError{Key: key, Why: "its token was raised meanwhile"}
	}
	delete(s.records, key)
	return nil
}
