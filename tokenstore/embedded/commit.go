package embedded

import (
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// commit carries out one batch and answers every request in it. It runs in the
// committer's goroutine alone.
func (s *Store) commit(requests []*request) {
	if err := s.Err(); err != nil {
		answer(requests, tokenstore.Unavailable(errFailed))
		return
	}
	records := 0
	for _, r := range requests {
		records += len(r.marks)
	}
	cleared := s.clears.take(maxBatch-records, s.group.poke)

	err := s.apply(requests, cleared)
	var broken *panicError
	switch {
	case err == nil:
		answer(requests, nil)
	case errors.As(err, &broken) && s.Err() == nil && len(requests) > 1:
		// A damaged page was to be written by one of them. The others do not
		// suffer: each has a transaction of its own.
		for _, r := range requests {
			answer([]*request{r}, s.apply([]*request{r}, nil))
		}
	default:
		answer(requests, err)
	}
}

// answer tells each request its refusal, or else err. Refusals come last of
// all: they may rest on a record of the same batch, and a token is stale only
// once that record is on the disk.
func answer(requests []*request, err error) {
	for _, r := range requests {
		switch {
		case err != nil:
			r.done <- tokenstore.Unavailable(err)
		default:
			r.done <- r.err
		}
	}
}

// apply makes one transaction of requests and clears. After an error nothing
// is known to be recorded; the store is then poisoned unless it can go on.
func (s *Store) apply(requests []*request, cleared map[tokenstore.Key]tokenstore.Token) error {
	tx, err := s.db.Begin(true)
	if err != nil {
		s.poison(err)
		return err
	}
	var keys []tokenstore.Key
	var added uint64
	err = guard(func() error {
		bucket := tx.Bucket(keysBucket)
		b := newBatch(bucket.Get, time.Now(), len(requests)+len(cleared))
		for _, r := range requests {
			r.err = b.decide(r.marks)
		}
		for key, token := range cleared {
			b.clear(key, token)
		}
		keys = b.dirty()
		added, err = b.write(bucket, keys)
		return err
	})
	if err != nil || len(keys) == 0 {
		// Nothing was allocated yet, so bbolt's plain rollback is enough.
		return errors.Join(err, s.rollback(tx))
	}
	return s.seal(tx, added)
}

// seal commits a transaction and makes its outcome known.
func (s *Store) seal(tx *bolt.Tx, added uint64) error {
	txid := tx.ID()
	err := guard(tx.Commit)
	if s.afterCommit != nil {
		err = s.afterCommit(err)
	}
	if err == nil {
		s.keys.Add(int64(added))
		s.durable.advance(txid)
		return nil
	}
	var broken *panicError
	if errors.As(err, &broken) {
		// Nobody knows how far it came, nor which of bbolt's locks it holds.
		s.stuck = true
		s.poison(err)
		return err
	}
	if !passing(err) || !s.untouched() {
		s.poison(err)
	}
	return err
}

// untouched reports whether both headers of the file are still those of the
// last transaction that is on the disk. A header that was written, be it in
// part, but not synced would make the next transaction overwrite pages which
// a crash still needs.
func (s *Store) untouched() bool {
	h, err := readHeaders(s.file)
	return err == nil && h.txid == uint64(s.durable.last())
}

// rollback gives a transaction up in which nothing was allocated.
func (s *Store) rollback(tx *bolt.Tx) error {
	err := guard(tx.Rollback)
	if err != nil {
		s.stuck = true
		s.poison(err)
	}
	return err
}
