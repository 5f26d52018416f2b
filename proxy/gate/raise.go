package gate

import (
	"context"
	"errors"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// load reads the records of the claims that nobody has read yet. The entries
// are held, so that a raise that comes in between is not lost by the fill.
func (g *Gate) load(ctx context.Context, t *Ticket) error {
	for i := range t.claims {
		c := &t.claims[i]
		s := c.shard
		s.mu.Lock()
		loaded := c.entry.loaded || c.Unordered // of such a one the record says nothing
		era := c.entry.era
		s.mu.Unlock()
		if loaded {
			continue
		}
		rec, ok, err := g.store.Load(ctx, c.Key)
		if err != nil {
			return clientOr(ctx, err)
		}
		s.mu.Lock()
		if c.entry.era == era {
			c.entry.fill(rec, ok)
			c.entry.dirty = true
		} // else it was read before the key was forgotten: believed now, a write would pass on a record that is gone
		s.mu.Unlock()
	}
	return nil
}

// lift makes the ticket's tokens the highest in memory, at once (rule 5), and
// returns the marks that nobody else is putting on the disk. The locks are
// held and every claim has been checked.
func (t *Ticket) lift() (marks []tokenstore.Mark) {
	for i := range t.claims {
		c := &t.claims[i]
		e := c.entry
		if c.Unordered {
			if !t.gate.sole && !c.nowhere() {
				marks = append(marks, tokenstore.Mark{Key: c.Key, Unordered: true})
			}
			continue
		}
		e.state.lift(c.Token)
		if t.gate.sole && (e.underway(c.Token) || e.durable.is(c.Token) && (c.Holder == "" || e.durable.holder != "")) {
			continue
		}
		m := c.mark()
		m.Holder, m.Observed = c.Holder, t.looks
		marks = append(marks, m)
	}
	return marks
}

// repeat returns the mark of a raise that failed earlier, unless it is under
// way again. The lock is held.
func (c *claim) repeat() []tokenstore.Mark {
	if c.entry.underway(c.entry.high) {
		return nil
	}
	return []tokenstore.Mark{c.mark()}
}

// mark is the highest token of the claim's key on its way to the disk. The
// record may say clear only if nothing lower is in flight or unsettled and no
// quarantine runs (rule 6).
func (c *claim) mark() tokenstore.Mark {
	e := c.entry
	e.startRaise()
	g := c.ticket.gate
	clear := e.drained() && !c.Suspect && !g.unordered.Load() && g.heldBy(c) == quarantineNone && g.doubtful.Load() < maxDoubtful
	return tokenstore.Mark{Key: c.Key, Token: e.high, Clear: clear}
}

// raise records the marks, in one step, and tells who waits on their keys.
// own says that they are the ticket's and not those of a higher token. It is
// not cancelled by the client's leaving: others may wait for it.
func (g *Gate) raise(ctx context.Context, t *Ticket, marks []tokenstore.Mark, own bool) error {
	start := time.Now()
	deadline, _ := ctx.Deadline()
	rctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	grant, err := g.store.Acquire(rctx, marks)
	cancel()
	t.queue.waited.Raise += time.Since(start)

	t.lock()
	for i := range t.claims {
		c := &t.claims[i]
		for _, m := range marks {
			if m.Key == c.Key && !m.Unordered {
				c.raised(m, err)
			}
		}
	}
	t.unreserve()
	t.unlock()

	if err != nil {
		if stale := (*tokenstore.StaleError)(nil); errors.As(err, &stale) {
			t.queue.late = own // it was stale when it came
			return nil         // the record is known now: the next look tells
		}
		return err
	}
	if !own {
		grant.Release()
		return nil
	}
	if r, tells := grant.(tokenstore.Raiser); !tells || r.Raised() {
		t.queue.waited.Raised = true // else others had put it there
	}
	t.release()
	t.grant = grant
	if t.looks || t.marksOnly {
		return nil // it waits for nothing but the record
	}
	return g.drainElsewhere(ctx, t)
}

// ended is a context that has ended: who asks with it does not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// drainElsewhere waits until no other proxy has an older write on the ticket's
// keys (R3).
func (g *Gate) drainElsewhere(ctx context.Context, t *Ticket) error {
	if g.sole {
		return nil
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.life, cancel)()
	start := time.Now()
	err := t.grant.Drained(ended)
	if errors.Is(err, tokenstore.ErrUnavailable) {
		// What waits for other proxies waits for older writes of this one as well,
		// by their entries, and so does not come to where those are told.
		t.lock()
		t.hurryOlder()
		t.unlock()
		err = t.grant.Drained(waiting)
	}
	t.queue.waited.Drain += time.Since(start)
	stale := (*tokenstore.StaleError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &stale):
		t.release() // R6: whoever overtook it waits for that
		t.noteStale(stale)
		return nil // the next look tells
	case g.stopping.Load():
		return ErrStopping
	case left(ctx):
		return ErrLeft
	case ctx.Err() != nil:
		t.lock()
		t.keepPlaces()
		t.unlock()
		return &DrainTimeoutError{Key: t.claims[0].Key}
	}
	return err
}

// noteStale takes over that a higher token is on record.
func (t *Ticket) noteStale(stale *tokenstore.StaleError) {
	t.lock()
	defer t.unlock()
	for i := range t.claims {
		if c := &t.claims[i]; c.Key == stale.Key {
			c.entry.recorded(stale.Highest, false, "")
			c.entry.wake()
		}
	}
}

// release gives the grant back, if there is one. Only the ticket's owner calls
// it, before the write is admitted.
func (t *Ticket) release() {
	if t.grant != nil {
		t.grant.Release()
		t.grant = nil
	}
}

// raised takes over how the raise to m ended. The lock is held.
func (c *claim) raised(m tokenstore.Mark, err error) {
	e := c.entry
	e.endRaise(m.Token)
	stale, collision := (*tokenstore.StaleError)(nil), (*tokenstore.CollisionError)(nil)
	switch {
	case err == nil:
		e.recorded(m.Token, m.Clear, m.Holder)
		if e.durable.is(e.high) {
			c.doubt(false) // nothing lower is on its way any more that could count
		}
	case errors.As(err, &stale):
		// Nothing of the marks was recorded. Others who waited for one of them
		// try for themselves.
		if stale.Key == m.Key {
			e.recorded(stale.Highest, false, "")
		}
	case errors.As(err, &collision):
		if collision.Key == m.Key {
			e.recorded(collision.Token, false, collision.Current)
		}
	default:
		// Nobody knows what is on the disk: nobody is told "stale" (rule 4).
		if m.Clear {
			c.doubt(true)
		}
		for _, w := range e.waiters {
			if w != c && !m.Token.Less(w.Token) {
				w.ticket.queue.fail(err)
			}
		}
	}
	e.wake()
}

// doubt notes whether a raise of the key may still reach the disk. The lock is
// held.
func (c *claim) doubt(on bool) {
	if c.entry.doubt == on {
		return
	}
	c.entry.doubt = on
	if on {
		c.ticket.gate.doubtful.Add(1)
	} else {
		c.ticket.gate.doubtful.Add(-1)
	}
}

// recorded notes that token is on the disk for the entry's key, and passes
// the writes in flight with a lower one, but for those that overtake sees to.
// The lock is held.
func (e *entry) recorded(token tokenstore.Token, clear bool, holder string) {
	e.record(token, clear, holder)
	e.dirty = true
	for c := e.registered; c != nil; c = c.next {
		if c.Token.Less(token) && !c.Unordered && !c.ticket.looks {
			c.ticket.pass()
		}
	}
}

// clientOr returns err, or ErrLeft where err came because the client left.
func clientOr(ctx context.Context, err error) error {
	if err != nil && left(ctx) {
		return ErrLeft
	}
	return err
}
