package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// What an operator does at a key obeys the rules like every write. A raise that
// announces a new holder is Enter with Request.Read: it raises, drains, and holds
// nothing.

// Record is Enter for a token without a write, which waits for no older write
// either: it obeys the rules up to 6. Its errors are those of Enter but for
// *DrainTimeoutError; a higher token on record is a *StaleError.
func (g *Gate) Record(ctx context.Context, c Claim, patience time.Duration) error {
	t := new(Ticket)
	t.prepare(g, &Request{Claims: []Claim{c}, Read: true, Since: time.Now()})
	t.marksOnly = true
	t.lock()
	t.attach()
	t.unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := g.pass(ctx, t)
	if t.phase != over {
		t.leave()
	} else {
		t.release()
	}
	return err
}

// maxVouched bounds the keys of a shard whose quarantine an operator has ended.
const maxVouched = 1 << 14

// ErrManyVouched: the quarantine of too many single keys was ended.
var ErrManyVouched = errors.New("the quarantine of too many single keys was ended already; wait until it is over")

// Settled says what Gate.Settle has ended.
type Settled struct {
	// Unsettled are the writes of the key that were unsettled, by token.
	Unsettled []Unsettled
	// Also are the other keys that these writes were unsettled on.
	Also []tokenstore.Key
	// Quarantine says that the key was quarantined.
	Quarantine bool
}

// Settle takes an operator's word that every write of key of which the proxy
// lost sight is over: those that are unsettled, and those of before the last
// crash. A write with several keys is over on all of them. Writes in flight are
// not touched: their answers will tell.
//
// What it says of before the crash is kept until the quarantine ends, and not
// over a restart. The error is ErrManyVouched, and nothing was done then.
func (g *Gate) Settle(key tokenstore.Key) (done Settled, err error) {
	var ended []*Ticket
	// All locks, as in Stop: the keys of the writes are not known before their
	// own key's lock is held, and locks are taken in order.
	for i := range g.table.shard {
		g.table.shard[i].mu.Lock()
	}
	s := g.table.of(key)
	if done.Quarantine = g.quarantine.Load() && !s.vouched[key]; done.Quarantine {
		if len(s.vouched) >= maxVouched {
			err = ErrManyVouched
		} else if s.vouched == nil {
			s.vouched = map[tokenstore.Key]bool{key: true}
		} else {
			s.vouched[key] = true
		}
	}
	if e := s.active[key]; e != nil && err == nil {
		for c := e.registered; c != nil; c = c.next {
			if c.ticket.phase == unsettled {
				done.Unsettled = append(done.Unsettled, c.unsettled())
				ended = append(ended, c.ticket)
			}
		}
		for _, t := range ended {
			for i := range t.claims {
				if other := t.claims[i].Key; other != key && other != "" {
					done.Also = append(done.Also, other)
				}
			}
			t.end()
		}
		e.wake() // for the quarantine
	}
	for i := range g.table.shard {
		g.table.shard[i].mu.Unlock()
	}
	for _, t := range ended {
		t.after()
	}
	return done, err
}

// Forgotten says what Gate.Forget has found.
type Forgotten struct {
	Record tokenstore.Record
	Exists bool // there was a record, and it is gone
}

// Forget removes the record of a key on which nothing goes on: the next write
// begins anew, whatever its token. Those that come meanwhile wait. only, where it
// is not nil, says whether the record as it is now is still to be forgotten.
//
// Where anything of the key is in flight, unsettled, waiting, quarantined, open
// at another proxy or leased, the error is a *tokenstore.InUseError and nothing
// is changed. After one that wraps tokenstore.ErrUnavailable the key may be
// forgotten or not, also later; what is admitted stays safe in both cases.
func (g *Gate) Forget(ctx context.Context, key tokenstore.Key, only func(tokenstore.Record) bool) (f Forgotten, err error) {
	forgetter, ok := g.store.(tokenstore.Forgetter)
	if !ok {
		return f, errors.New("this store cannot forget a key")
	}
	s := g.table.of(key)
	e, err := g.beginForget(s, key)
	if err != nil {
		return f, err
	}
	known := false // that there is no record any more
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.leaving = false
		e.era++
		if known {
			e.forget()
		} else if err != nil && errors.Is(err, tokenstore.ErrUnavailable) {
			e.unload()
		}
		e.dirty, e.kept = true, nil
		e.wake()
		s.drop(e)
	}()
	if f.Record, f.Exists, err = g.store.Load(ctx, key); err != nil {
		return f, err
	}
	if f.Exists && only != nil && !only(f.Record) {
		return Forgotten{}, &tokenstore.InUseError{Key: key, Why: "its token was raised meanwhile"}
	}
	if err := g.Leased(ctx, key); err != nil {
		return f, err
	}
	// Also where there is no record: what the other proxies know is the store's.
	if err := forgetter.Forget(ctx, key, f.Record); err != nil {
		return f, err
	}
	known = true
	return f, nil
}

// beginForget keeps every write of the key waiting from here on, if nothing
// goes on there: what is in the store then cannot change by this proxy.
func (g *Gate) beginForget(s *shard, key tokenstore.Key) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.stopping.Load() {
		return nil, ErrStopping
	}
	e := s.hold(key)
	why := e.busy()
	switch {
	case why != "":
	case e.waiting() == 1:
		why = "a write is waiting"
	case e.waiting() > 1:
		why = fmt.Sprintf("%d writes are waiting", e.waiting())
	case e.doubt:
		why = "nobody knows whether its last raise is on record; raise it again, and then forget it"
	case g.quarantine.Load() && !s.vouched[key] && (g.unordered.Load() || !e.durable.fresh):
		// Without a look at the record: where there is none yet, forgetting it
		// can wait.
		why = "it is quarantined after a crash, until " + g.quarantineEnd.Format(time.RFC3339)
	}
	if why != "" {
		s.drop(e)
		return nil, &tokenstore.InUseError{Key: key, Why: why}
	}
	e.leaving = true
	return e, nil
}

// Leased refuses a key that somebody holds a lease of, which Forget does not
// forget: the token would be gone while its holder writes with it. The error is a
// *tokenstore.InUseError then.
func (g *Gate) Leased(ctx context.Context, key tokenstore.Key) error {
	leaser, ok := g.store.(tokenstore.Leaser)
	if !ok {
		return nil
	}
	l, err := leaser.Lease(ctx, key)
	if err != nil {
		return err
	}
	if l.Held() {
		return &tokenstore.InUseError{Key: key, Why: fmt.Sprintf("its lease is held by %q with token %s; it has to be released, or to run out, first", l.Holder, tokenstore.Decimal.Print(l.Token))}
	}
	return nil
}
