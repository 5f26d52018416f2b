package embedded

import (
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// commit carries out one batch and answers every request in it. It runs in the
// committer's goroutine alone.
func (s *Store) commit(requests []*request) {
	if err := s.room(); err != nil {
		s.clears.take(0, s.group.poke) // none: those that wait ask again
		answer(requests, err)
		return
	}
	records := 0
	for _, r := range requests {
		records += r.size()
	}
	cleared := s.clears.take(maxBatch-records, s.group.poke)
	answer(requests, s.apply(requests, cleared))
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

// apply decides requests and clears and brings what they change to the disk.
// After an error nothing is known to be recorded; the store is then poisoned
// unless it can go on.
func (s *Store) apply(requests []*request, cleared map[tokenstore.Key]tokenstore.Token) error {
	v := s.view()
	b := newBatch(v.get, &s.leases, time.Now(), len(requests)+len(cleared))
	err := guard(func() error {
		for _, r := range requests {
			if r.lease != nil {
				r.err = b.decideLease(r.lease)
				continue
			}
			if r.forget != nil {
				r.err = b.forget(r.marks[0].Key, *r.forget)
				s.clears.drop(r.marks[0].Key)
				continue
			}
			r.err = b.decide(r.marks)
		}
		for key, token := range cleared {
			b.clear(key, token)
		}
		return nil
	})
	v.close()
	if err != nil || b.empty() {
		return err
	}
	return s.record(b)
}

// view is what the committer reads the records of one batch from: the recent
// ones, and the file for the others.
type view struct {
	s       *Store
	current map[tokenstore.Key]raised
	frozen  *frozen
	tx      *bolt.Tx // begun where it is first needed
	keys    *bolt.Bucket
}

// view takes the maps first. A transaction of bbolt shows the file as it was
// when it began: had it begun before, a fold could end in between and drop its
// frozen records, which would then be neither here nor there.
func (s *Store) view() *view {
	v := &view{s: s}
	v.current, v.frozen = s.recent.maps()
	return v
}

func (v *view) get(key tokenstore.Key) (rec tokenstore.Record, ok bool, err error) {
	if e, ok := lookup(v.current, v.frozen, key); ok {
		return e.rec, !e.gone, nil
	}
	if v.tx == nil {
		if v.tx, err = v.s.db.Begin(false); err != nil {
			return rec, false, tokenstore.Unavailable(err)
		}
		v.keys = v.tx.Bucket(keysBucket)
		if v.s.hooks.inView != nil {
			v.s.hooks.inView()
		}
	}
	return readRecord(v.keys, key)
}

func (v *view) close() {
	if v.tx != nil {
		_ = v.tx.Rollback() // never fails for a reader
	}
}

// readRecord reads the record of a key in the file.
func readRecord(keys *bolt.Bucket, key tokenstore.Key) (rec tokenstore.Record, ok bool, err error) {
	raw := keys.Get([]byte(key))
	if raw == nil {
		return rec, false, nil
	}
	if rec, err = decodeRecord([]byte(key), raw); err != nil {
		return tokenstore.Record{}, false, &tokenstore.DamagedError{Key: key, Why: err.Error()}
	}
	return rec, true, nil
}
