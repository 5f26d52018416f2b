package embedded

import (
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// batch is what one transaction does: it reads every record once, decides
// each request on its own in the order in which they came, and then writes
// what has changed in the order of the keys.
type batch struct {
	get   func(key []byte) []byte // the record on disk, nil where there is none
	now   time.Time
	slots map[tokenstore.Key]*slot
}

// slot is the record of one key as the batch will leave it.
type slot struct {
	rec   tokenstore.Record
	ok    bool // there is a record
	added bool // there was none on the disk
	dirty bool
	err   error // the record on the disk cannot be read: the key fails closed
}

func newBatch(get func(key []byte) []byte, now time.Time, size int) *batch {
	return &batch{get: get, now: now, slots: make(map[tokenstore.Key]*slot, size)}
}

// decide takes all marks of a request into the batch, or none of them, and
// returns the refusal. A refusal may rest on marks of the same batch: it must
// not be told before the batch is on the disk.
func (b *batch) decide(marks []tokenstore.Mark) error {
	if len(marks) == 1 { // by far the most frequent
		return b.decideOne(marks[0])
	}
	next := make([]tokenstore.Record, len(marks))
	changed := make([]bool, len(marks))
	for i, m := range marks {
		s := b.slot(m.Key)
		if s.err != nil {
			return s.err
		}
		var err error
		if next[i], changed[i], err = s.rec.Raise(s.ok, m, b.now); err != nil {
			return err
		}
	}
	for i, m := range marks {
		if changed[i] {
			b.slots[m.Key].set(next[i])
		}
	}
	return nil
}

func (b *batch) decideOne(m tokenstore.Mark) error {
	s := b.slot(m.Key)
	if s.err != nil {
		return s.err
	}
	next, changed, err := s.rec.Raise(s.ok, m, b.now)
	if err == nil && changed {
		s.set(next)
	}
	return err
}

// clear adds Clear to a record whose highest is still token.
func (b *batch) clear(key tokenstore.Key, token tokenstore.Token) {
	s := b.slot(key)
	if s.err != nil || !s.ok || s.rec.Highest != token || s.rec.Clear {
		return
	}
	next := s.rec
	next.Clear = true
	s.set(next)
}

// slot reads the record of a key, at its first use.
func (b *batch) slot(key tokenstore.Key) *slot {
	if s, ok := b.slots[key]; ok {
		return s
	}
	s := &slot{}
	b.slots[key] = s
	defer func() {
		// A damaged page makes bbolt panic. It is the key's trouble alone
		// while the page is only read.
		if p := recover(); p != nil {
			s.err = &tokenstore.DamagedError{Key: key, Why: fmt.Sprintf("the page that holds it cannot be read (%v)", p)}
		}
	}()
	raw := b.get([]byte(key))
	if raw == nil {
		s.added = true
		return s
	}
	rec, err := decodeRecord([]byte(key), raw)
	if err != nil {
		s.err = &tokenstore.DamagedError{Key: key, Why: err.Error()}
		return s
	}
	s.rec, s.ok = rec, true
	return s
}

func (s *slot) set(rec tokenstore.Record) {
	s.rec, s.ok, s.dirty = rec, true, true
}

// dirty returns the keys that have changed, sorted: bbolt inserts sorted keys
// faster by orders of magnitude.
func (b *batch) dirty() []tokenstore.Key {
	var keys []tokenstore.Key
	for key, s := range b.slots {
		if s.dirty {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// write puts the records of keys into the bucket and counts the new ones.
func (b *batch) write(bucket *bolt.Bucket, keys []tokenstore.Key) (added uint64, err error) {
	for _, key := range keys {
		s := b.slots[key]
		if err := bucket.Put([]byte(key), encodeRecord([]byte(key), s.rec)); err != nil {
			return 0, err
		}
		if s.added {
			added++
		}
	}
	if added > 0 {
		err = bucket.SetSequence(bucket.Sequence() + added)
	}
	return added, err
}
