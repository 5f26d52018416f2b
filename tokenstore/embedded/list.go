package embedded

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var _ tokenstore.Lister = (*Store)(nil)

// List implements tokenstore.Lister: a page of the file, merged with what is in
// the logs. Of the locks that the committer needs it holds one, for as long as it
// takes to look up the keys of the page that are in the log in use.
func (s *Store) List(ctx context.Context, prefix string, after tokenstore.Key, limit int) (page []tokenstore.Listed, next tokenstore.Key, err error) {
	if ctx.Err() != nil {
		return nil, "", tokenstore.Unavailable(context.Cause(ctx))
	}
	if err := s.usable(); err != nil {
		return nil, "", err
	}
	limit = tokenstore.PageSize(limit)
	span := span{prefix: prefix, after: after}
	// The maps first, as in view: a fold that ends in between drops its records,
	// and the file as it was before does not have them.
	logs := s.recent.seen()
	inFile, more, err := s.listFile(span, limit)
	if err != nil {
		return nil, "", fmt.Errorf("the keys cannot be listed: %w", tokenstore.Unavailable(err))
	}
	if more {
		span.last = inFile[len(inFile)-1].Key
	}
	keys := logs.keys(span)
	newest := s.recent.newest(logs, keys)
	page = merge(inFile, keys, newest)
	switch {
	case len(page) > limit:
		page = page[:limit]
		next = page[limit-1].Key
	case more:
		next = span.last
	}
	return page, next, nil
}

// span is the part of the keys that one page may have.
type span struct {
	prefix string
	after  tokenstore.Key // behind this one
	last   tokenstore.Key // up to this one; "" for no end
}

func (p span) has(key tokenstore.Key) bool {
	return key > p.after && strings.HasPrefix(string(key), p.prefix) && (p.last == "" || key <= p.last)
}

// listFile reads the records of the file; more says that it has others behind
// them.
func (s *Store) listFile(p span, limit int) (page []tokenstore.Listed, more bool, err error) {
	err = guard(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			if s.hooks.inView != nil {
				s.hooks.inView()
			}
			c := tx.Bucket(keysBucket).Cursor()
			k, raw := c.Seek([]byte(max(p.prefix, string(p.after))))
			if k != nil && string(k) == string(p.after) {
				k, raw = c.Next()
			}
			for ; k != nil && bytes.HasPrefix(k, []byte(p.prefix)); k, raw = c.Next() {
				if more = len(page) == limit; more {
					return nil
				}
				l := tokenstore.Listed{Key: tokenstore.Key(k)}
				rec, err := decodeRecord(k, raw)
				if l.Record = rec; err != nil {
					l.Damaged = &tokenstore.DamagedError{Key: l.Key, Why: err.Error()}
				}
				page = append(page, l)
			}
			return nil
		})
	})
	return page, more, err
}

// inLogs is what a list has seen of the records that are not in the file. Its
// order does not change any more; its maps are read under the lock of recent.
type inLogs struct {
	current map[tokenstore.Key]raised
	order   []tokenstore.Key
	frozen  *frozen
}

func (r *recent) seen() inLogs {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return inLogs{r.current, r.order, r.frozen}
}

// keys are those of a span, sorted, each once. It goes through all of them, some
// 100,000 at the most, without a lock.
func (l inLogs) keys(p span) (keys []tokenstore.Key) {
	if l.frozen != nil {
		sorted := l.frozen.sorted()
		at, _ := slices.BinarySearch(sorted, max(p.after, tokenstore.Key(p.prefix)))
		for _, key := range sorted[at:] {
			if !strings.HasPrefix(string(key), p.prefix) || p.last != "" && key > p.last {
				break
			}
			if p.has(key) {
				keys = append(keys, key)
			}
		}
	}
	for _, key := range l.order {
		if p.has(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// newest looks keys up. It lets the committer in between.
func (r *recent) newest(l inLogs, keys []tokenstore.Key) []raised {
	const atOnce = 256
	found := make([]raised, 0, len(keys))
	for part := range slices.Chunk(keys, atOnce) {
		r.mu.RLock()
		for _, key := range part {
			e, _ := lookup(l.current, l.frozen, key)
			found = append(found, e)
		}
		r.mu.RUnlock()
	}
	return found
}

// merge puts both together, in the order of the keys: what is in the logs is
// newer, and what was forgotten there is left out.
func merge(inFile []tokenstore.Listed, keys []tokenstore.Key, newest []raised) (page []tokenstore.Listed) {
	for len(inFile) > 0 || len(keys) > 0 {
		if len(keys) == 0 || len(inFile) > 0 && inFile[0].Key < keys[0] {
			page, inFile = append(page, inFile[0]), inFile[1:]
			continue
		}
		if len(inFile) > 0 && inFile[0].Key == keys[0] {
			inFile = inFile[1:]
		}
		if !newest[0].gone {
			page = append(page, tokenstore.Listed{Key: keys[0], Record: newest[0].rec})
		}
		keys, newest = keys[1:], newest[1:]
	}
	return page
}
