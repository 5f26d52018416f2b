package embedded

import (
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// batch is what one frame of the log comes from: it reads every record once,
// and decides each request on its own in the order in which they came.
type batch struct {
	get     func(key tokenstore.Key) (rec tokenstore.Record, ok bool, err error) // the record on disk
	now     time.Time
	slots   map[tokenstore.Key]*slot
	changed []*slot // those whose record is to be written

	leases       *leaseTable                         // on disk
	leased       map[tokenstore.Key]tokenstore.Lease // as the batch will leave them
	leaseChanges []leaseChange                       // in the order in which they were decided
	granted      uint64                              // the store's counter, as the batch will leave it
}

// slot is the record of one key as the batch will leave it.
type slot struct {
	key   tokenstore.Key
	rec   tokenstore.Record
	ok    bool // there is a record
	added bool // there was none on the disk
	dirty bool
	left  bool  // it is forgotten in this batch, in which nothing more is done with it
	err   error // the record on the disk cannot be read: the key fails closed
}

func newBatch(get func(key tokenstore.Key) (tokenstore.Record, bool, error), leases *leaseTable, now time.Time, size int) *batch {
	return &batch{get: get, now: now, slots: make(map[tokenstore.Key]*slot, size), leases: leases, granted: leases.counter()}
}

// empty reports whether nothing is to be written.
func (b *batch) empty() bool { return len(b.changed)+len(b.leaseChanges) == 0 }

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
		if err := s.refusal(); err != nil {
			return err
		}
		var err error
		if next[i], changed[i], err = s.rec.Raise(s.ok, m, b.now); err != nil {
			return err
		}
	}
	for i, m := range marks {
		if changed[i] {
			b.set(b.slots[m.Key], next[i])
		}
	}
	return nil
}

func (b *batch) decideOne(m tokenstore.Mark) error {
	s := b.slot(m.Key)
	if err := s.refusal(); err != nil {
		return err
	}
	next, changed, err := s.rec.Raise(s.ok, m, b.now)
	if err == nil && changed {
		b.set(s, next)
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
	b.set(s, next)
}

// slot reads the record of a key, at its first use.
func (b *batch) slot(key tokenstore.Key) *slot {
	if s, ok := b.slots[key]; ok {
		return s
	}
	s := &slot{key: key}
	b.slots[key] = s
	defer func() {
		// A damaged page makes bbolt panic. It is the key's trouble alone
		// while the page is only read.
		if p := recover(); p != nil {
			s.err = &tokenstore.DamagedError{Key: key, Why: fmt.Sprintf("the page that holds it cannot be read (%v)", p)}
		}
	}()
	s.rec, s.ok, s.err = b.get(key)
	s.added = !s.ok
	return s
}

func (b *batch) set(s *slot, rec tokenstore.Record) {
	if !s.dirty {
		b.changed = append(b.changed, s)
	}
	s.rec, s.ok, s.dirty = rec, true, true
}
