package embedded

import (
	"errors"
	"io"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

// Imported says what Import has done.
type Imported struct {
	Keys   int64 // of the dump
	Raised int64 // that had no record, or a lower one
	Clean  bool  // the store was closed with its marker
}

// Import takes a dump into a store that no process uses, which is made where
// o.Create says so. The higher token of each key is kept, and so is the holder
// of an equal one; a lease that is held here stays, and the counter of tokens
// is the higher one. The rules and epochs of the dump are remembered, and o.Rules
// and o.Epochs do not count: Open compares them at the next start.
//
// After the dump of a store that was not stopped cleanly, the store is left
// without its marker, so that the next life begins with a quarantine. It has
// the longer one of both settle times. The dump MUST be known to be whole: what
// comes before a fault stays. Its errors are those of Open and of r.
func Import(o Options, r *dump.Reader) (done Imported, err error) {
	o.Rules, o.Epochs, o.Unordered = r.Header.Rules, nil, r.Header.Unordered
	o.Settle, o.moved = r.Header.Settle, &r.Header
	s, err := Open(o)
	if err != nil {
		return done, err
	}
	done.Clean = r.Header.Clean && !s.Recovered()
	// The committer has no requests here: the batches are made below.
	s.group.stop()
	defer func() {
		err = errors.Join(err, s.Close(done.Clean))
	}()
	for more := true; more && err == nil; {
		more, err = s.importBatch(r, &done)
	}
	return done, err
}

// beginImport notes what a dump says of the whole store, in the transaction
// that begins this life and so before any record comes. inLogs says that some
// of the store's own are not in the file yet.
func beginImport(tx *bolt.Tx, h dump.Header, inLogs bool) error {
	about := tx.Bucket(aboutBucket)
	if err := raiseGranted(about, h.Granted); err != nil {
		return err
	}
	before, err := readEpochs(about)
	if err != nil {
		return err
	}
	highest := map[string]uint64{}
	for name, epoch := range h.Epochs {
		highest[name] = max(epoch, before[name])
	}
	if err := raiseEpochs(about, highest); err != nil {
		return err
	}
	// A key that is here already may have a record that says Clear, of this
	// store's own writes. A quarantine would let its holder pass, and writes of
	// the other store may still be on their way to it. So nobody passes.
	if !h.Clean && (inLogs || tx.Bucket(keysBucket).Sequence() > 0) {
		_, err = beginUnordered(about, true)
	}
	if err == nil && !h.Clean {
		err = about.Delete(fencesKey) // nobody knows which writes were fenced there
	}
	return err
}

// importBatch takes the next records in, as one frame of the log. more is
// false at the end of the dump.
func (s *Store) importBatch(r *dump.Reader, done *Imported) (more bool, err error) {
	if err := s.room(); err != nil {
		return false, err
	}
	v := s.view()
	b := newBatch(v.get, &s.leases, time.Time{}, maxBatch)
	more = true
	err = guard(func() error {
		for range maxBatch {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				more = false
				return b.importLeases(r.Leases())
			}
			if err == nil {
				done.Keys++
				err = b.importOne(rec, done.Clean)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	v.close()
	if err != nil || b.empty() {
		return more, err
	}
	done.Raised += int64(len(b.changed))
	return more, s.record(b)
}

// importLeases puts leases where nobody holds one here. One that is held stays:
// its holder may be at work.
func (b *batch) importLeases(leases []tokenstore.KeyLease) error {
	for _, l := range leases {
		current, err := b.lease(l.Key)
		if err != nil {
			return err
		}
		if !current.Held() {
			b.setLease(l.Key, l.Lease)
		}
	}
	return nil
}

// importOne decides as a raise does, with the time of then. What is higher
// here stays, and so does an equal one of another holder. Clear counts only
// where neither store may have left a write on its way.
func (b *batch) importOne(rec dump.Record, clean bool) error {
	b.now = rec.RaisedAt
	if y := b.now.Year(); y < 1970 || y > 2261 { // what a record cannot say
		b.now = time.Unix(0, 0)
	}
	err := b.decideOne(tokenstore.Mark{Key: rec.Key, Token: rec.Highest, Clear: rec.Clear && clean, Holder: rec.Holder})
	var stale *tokenstore.StaleError
	var collision *tokenstore.CollisionError
	if errors.As(err, &stale) || errors.As(err, &collision) {
		return nil
	}
	return err
}
