package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

// Movable is a Backend whose records can be read and put there as a whole, while
// no proxy uses the store.
type Movable interface {
	Backend
	// Import raises keys to what records say, at most MaxImport of them, each key
	// named once. Where a higher token is on record that one stays, and so does
	// the holder of an equal one. Clear does not count. After an error a part may
	// be done.
	Import(ctx context.Context, records []dump.Record) error
}

// MaxImport is how many records one call of Import has at most.
const MaxImport = 1000

// ReadHeader returns what an engine remembers of the whole store. It is clean
// where no session is registered: a session ends only when its last entry is
// gone. alive tells how many proxies use it. Where unordered entries are left,
// writes may be on their way to keys that have no record.
func ReadHeader(ctx context.Context, b Backend) (h dump.Header, alive int, err error) {
	sessions, err := b.Sessions(ctx)
	if err != nil {
		return h, 0, err
	}
	for _, is := range sessions {
		if is {
			alive++
		}
	}
	var a about
	err = b.Update(ctx, func(old []byte) ([]byte, error) {
		a, err = readAbout(old)
		return old, err
	})
	h = dump.Header{Clean: len(sessions) == 0, Rules: a.Rules, Epochs: a.Epochs}
	for s := range sessions {
		if err != nil || h.Unordered {
			break
		}
		var left []Entry
		left, err = b.Entries(ctx, s)
		h.Unordered = slices.ContainsFunc(left, Entry.Unordered)
	}
	if err == nil {
		h.Granted, err = b.RaiseGranted(ctx, 0)
	}
	return h, alive, err
}

// ImportHeader makes an engine remember the rules and epochs of another store,
// the higher epoch of both, and the higher counter of tokens. Where a rule made
// other keys here, its error is a *tokenstore.ChangedRulesError, and nothing is
// changed.
func ImportHeader(ctx context.Context, b Backend, h dump.Header) error {
	err := b.Update(ctx, func(old []byte) ([]byte, error) {
		a, err := readAbout(old)
		if err != nil {
			return nil, err
		}
		if changed := a.Rules.Changed(h.Rules); len(changed) > 0 {
			return nil, &tokenstore.ChangedRulesError{Rules: changed}
		}
		next := about{Rules: tokenstore.Rules{}, Epochs: map[string]uint64{}}
		for _, from := range []about{a, {Rules: h.Rules, Epochs: h.Epochs}} {
			for name, fp := range from.Rules {
				next.Rules[name] = fp
			}
			for name, epoch := range from.Epochs {
				next.Epochs[name] = max(epoch, next.Epochs[name])
			}
		}
		return json.Marshal(next)
	})
	if err == nil {
		_, err = b.RaiseGranted(ctx, h.Granted)
	}
	return err
}

func readAbout(b []byte) (a about, err error) {
	if b == nil {
		return a, nil
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("what the store remembers of the rules cannot be read: %w", err)
	}
	return a, nil
}

// Quarantine records keys of a store that was not stopped cleanly. What may
// still be on its way there stands here as an entry below every token, of a
// session that nobody keeps alive: proxies treat it as what a proxy has left
// behind that is gone, and wait until linger is over (R9).
type Quarantine struct {
	backend Backend
	ttl     time.Duration
	session ID
	begun   time.Time
	nonce   uint64
}

// NewQuarantine returns a Quarantine whose sessions live for ttl.
func NewQuarantine(b Backend, ttl time.Duration) *Quarantine {
	return &Quarantine{backend: b, ttl: ttl}
}

// maxWants is how many keys one Acquire may have.
const maxWants = 16

// Add records keys that have no record yet. One that has a higher one than the
// lowest token is a *tokenstore.StaleError: no entry can be put below it.
func (q *Quarantine) Add(ctx context.Context, records []dump.Record) error {
	for len(records) > 0 {
		part := records[:min(len(records), maxWants)]
		records = records[len(part):]
		if err := q.live(ctx); err != nil {
			return err
		}
		// The lowest token first, whose entry holds every other one back; an
		// entry with the highest alone would let equal ones pass (story Q).
		if _, err := q.backend.Acquire(ctx, q.session, q.wants(part, true)); err != nil {
			return err
		}
		if _, err := q.backend.Acquire(ctx, q.session, q.wants(part, false)); err != nil {
			return err
		}
	}
	return nil
}

func (q *Quarantine) wants(part []dump.Record, lowest bool) []Want {
	wants := make([]Want, len(part))
	for i, r := range part {
		q.nonce++
		wants[i] = Want{Mark: tokenstore.Mark{Key: r.Key}, Nonce: q.nonce}
		if !lowest {
			wants[i].Token, wants[i].Holder = r.Highest, r.Holder
		}
	}
	return wants
}

// live sees to it that there is a session with enough of its life before it.
// None is ever prolonged: that would take a watch, for nothing.
func (q *Quarantine) live(ctx context.Context) error {
	if !q.begun.IsZero() && time.Since(q.begun) < q.ttl/3 {
		return nil
	}
	begun := time.Now()
	var id ID
	_, _ = rand.Read(id[:]) // never fails
	if err := q.backend.Begin(ctx, id, q.ttl); err != nil {
		return err
	}
	q.session, q.begun = id, begun
	return nil
}
