package dump

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// leaseLine is a lease as it is written, behind all records.
type leaseLine struct {
	Key       text      `json:"lease"`
	ID        text      `json:"id"`
	Holder    text      `json:"holder,omitempty"`
	Token     mark      `json:"token"`
	TTL       span      `json:"ttl"`
	Beat      uint64    `json:"beat,omitempty"`
	GrantedAt time.Time `json:"granted_at,omitzero"`
}

var leasePrefix = []byte(`{"lease":`)

// AddLease writes the lease of one key, behind all records and all leases
// before it.
func (w *Writer) AddLease(l tokenstore.KeyLease) error {
	if err := checkLease(l, w.granted); err != nil {
		return err
	}
	if w.leases > 0 && l.Key <= w.last {
		return fmt.Errorf("the lease of key %q comes behind that of key %q: they are not in order", l.Key, w.last)
	}
	w.leases, w.last = w.leases+1, l.Key
	return w.line(leaseLine{Key: text(l.Key), ID: text(l.ID), Holder: text(l.Holder), Token: mark(l.Token), TTL: span(l.TTL), Beat: l.Beat, GrantedAt: l.GrantedAt.UTC()})
}

// lease reads one lease. They are few, as many as workers hold one, and are
// kept: Leases has them when the dump has ended.
func (r *Reader) lease(b []byte) error {
	var l leaseLine
	if err := r.decode(b, &l); err != nil {
		return err
	}
	held := tokenstore.KeyLease{Key: tokenstore.Key(l.Key), Lease: tokenstore.Lease{ID: string(l.ID), Holder: string(l.Holder),
		Token: tokenstore.Token(l.Token), TTL: time.Duration(l.TTL), Beat: l.Beat, GrantedAt: l.GrantedAt}}
	if err := checkLease(held, r.Header.Granted); err != nil {
		return r.broken("%v", err)
	}
	if n := len(r.leases); n > 0 && held.Key <= r.leases[n-1].Key {
		return r.broken("the lease of key %q comes behind that of key %q: they are not in order", held.Key, r.leases[n-1].Key)
	}
	r.sum.Write(b)
	r.leases = append(r.leases, held)
	return nil
}

// Leases are the held leases of a dump that Next has come to the end of.
func (r *Reader) Leases() []tokenstore.KeyLease {
	if !r.done {
		return nil
	}
	return r.leases
}

// checkLease refuses what no store has.
func checkLease(l tokenstore.KeyLease, granted uint64) error {
	if err := tokenstore.CheckLease(l.Key, l.Lease); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), tokenstore.ErrUnavailable.Error()+": ")) // it is no store that does not answer
	}
	if err := checkTime(l.GrantedAt); err != nil {
		return err
	}
	if l.Token.Major > granted {
		return fmt.Errorf("the lease of key %q has token %s, and the last one that was granted is %d", l.Key, l.Token, granted)
	}
	return nil
}
