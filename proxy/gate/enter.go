package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Request is a write that asks to pass.
type Request struct {
	// Claims are the keys that the write touches, each named once, with its
	// token: admitted on all of them or on none. At least one.
	Claims []Claim
	// DrainTimeout is how long the write may wait in Enter. Above 0.
	DrainTimeout time.Duration
	// Settle is how long the upstream may still apply the write after sight of
	// it was lost.
	Settle time.Duration
	// Since is when the request came, as Status tells it.
	Since time.Time
	// Watch, when not nil, is called once the write has to wait: the context
	// that it returns ends when the client leaves, and stop is called when the
	// wait is over.
	Watch func(context.Context) (_ context.Context, stop func())
	// Read says that the request writes nothing: it is checked, raises and
	// drains like a write, and holds nothing once it is admitted.
	Read bool
}

// Enter waits until the write may be sent and registers it as in flight, in
// one atomic step (rules 4 to 8). After nil the caller sends the write, once,
// and must end the ticket by Settle or Unsettle; after an error nothing may
// be sent and the ticket is over. The errors are listed in errors.go.
//
// ctx is the client: when it ends, the write is forgotten (ErrLeft). A raise
// that has begun goes on, since others may wait for it.
func (g *Gate) Enter(ctx context.Context, r Request, t *Ticket) error {
	t.prepare(g, &r)
	t.lock()
	t.attach()
	t.keep()
	if v, _ := t.decide(); v == admit && !g.stopping.Load() {
		t.register()
		t.unlock()
		t.tellClear()
		return nil
	}
	t.unlock()
	t.release()
	if r.Watch != nil {
		var stop func()
		ctx, stop = r.Watch(ctx)
		defer stop()
	}
	return g.enterSlowly(ctx, r.DrainTimeout, t)
}

// keep takes the grant that a shared store gives without I/O (R4), where there
// is one: then nothing older is open at another proxy, and nothing is until the
// grant is released. What is decided next, under the same locks, is rule 8's one
// step, and R5 is asked before the send. Several keys go the long way, and reads,
// which give their grant back before they are sent. The locks are held.
func (t *Ticket) keep() {
	g, c := t.gate, &t.claims[0]
	if g.sole || g.keeps == nil || len(t.claims) > 1 || t.read || c.nowhere() {
		return
	}
	if grant, ok := g.keeps.Held(tokenstore.Mark{Key: c.Key, Token: c.Token, Holder: c.Holder, Unordered: c.Unordered}); ok {
		t.grant = grant
	}
}

// enterSlowly is Enter for a write that needs the disk or has to wait.
func (g *Gate) enterSlowly(ctx context.Context, patience time.Duration, t *Ticket) error {
	start := time.Now()
	ctx, cancel := context.WithDeadline(ctx, start.Add(patience))
	defer cancel()
	err := g.pass(ctx, t)
	if t.queue != nil {
		t.queue.waited.Total = time.Since(start)
	}
	if err != nil {
		t.leave()
		return err
	}
	if t.read {
		t.release()
	}
	t.tellClear()
	return nil
}

// pass does what the claims need, step by step, and looks at all of them
// again after each step: re-checking only some would be unsafe, and holding
// some while waiting for others could deadlock.
func (g *Gate) pass(ctx context.Context, t *Ticket) error {
	defer t.unqueue()
	for {
		t.lock()
		v, c := t.decide()
		err := t.refusal(v, c)
		if err == nil && v != load {
			err = t.mayWait()
		}
		if err != nil {
			t.unlock()
			return err
		}
		switch v {
		case admit: // durable, drained, not stopping, the highest (rule 8)
			if err = t.mayRegister(ctx); err == nil {
				t.register()
			}
			t.unlock()
			return err
		case drain:
			if t.marksOnly {
				t.unlock()
				return nil
			}
			grace := t.overtakes(ctx)
			t.unlock()
			start := time.Now()
			err = t.await(ctx, v, c, grace)
			t.queue.waited.Drain += time.Since(start)
		default:
			err = g.record(ctx, t, v, c)
		}
		if err != nil {
			return err
		}
	}
}

// record does what the disk is needed for: it reads the records, or puts the
// ticket's tokens there, or waits for others who do. The locks are held, and
// record gives them back.
func (g *Gate) record(ctx context.Context, t *Ticket, v verdict, c *claim) error {
	var marks []tokenstore.Mark
	var err error
	switch v {
	case raise:
		if err = t.reserve(nil); err == nil {
			marks = t.lift()
		}
	case pending:
		// A raise that failed left its token in memory: it counts, so this
		// write puts it on the disk before it is told that it is stale.
		if err = t.reserve(c); err == nil {
			marks = c.repeat()
		}
	}
	if len(marks) == 0 {
		t.unreserve()
	}
	t.unlock()
	switch {
	case err != nil:
		return err
	case v == load:
		return g.load(ctx, t)
	case v == leaving:
		return t.await(ctx, v, c, nil)
	case v != raise && v != pending:
		return nil
	case len(marks) == 0: // others are at it
		return t.await(ctx, v, c, nil)
	}
	return g.raise(ctx, t, marks, v == raise)
}

// mayRegister looks, last of all, for what is not in the keys' state: a
// client that left during the raise, a session that is over (R5).
func (t *Ticket) mayRegister(ctx context.Context) error {
	if left(ctx) {
		return ErrLeft
	}
	if !t.MaySend() {
		return fmt.Errorf("%w: the session with it is over", tokenstore.ErrUnavailable)
	}
	return nil
}

// left reports whether the client has left, rather than time being up.
func left(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// prepare sets a new ticket up. It keeps nothing of r but the keys.
func (t *Ticket) prepare(g *Gate, r *Request) {
	*t = Ticket{}
	t.gate, t.settle, t.since, t.read = g, r.Settle, r.Since.UnixNano(), r.Read
	claims := r.Claims
	if len(claims) == 1 {
		t.claims = t.one[:]
	} else {
		t.claims = make([]claim, len(claims))
	}
	for i := range claims {
		c := &t.claims[i]
		c.Claim, c.ticket, c.shard = claims[i], t, g.table.of(claims[i].Key)
		if c.Unordered && !g.unordered.Load() {
			panic("gate: an unordered write, and Options.Unordered is not set: a crash would not be survived")
		}
	}
	if len(t.claims) > 1 {
		slices.SortFunc(t.claims, func(a, b claim) int {
			return cmp.Or(cmp.Compare(a.shard.n, b.shard.n), cmp.Compare(a.Key, b.Key))
		})
	}
}

// decide returns what the ticket needs next, and on which claim: what its
// claims need most urgently, so that every claim is checked before one of
// them is raised, and all are raised before one is drained.
func (t *Ticket) decide() (verdict, *claim) {
	worst, at := admit, &t.claims[0]
	for i := range t.claims {
		c := &t.claims[i]
		if c.Unordered && (t.read || c.nowhere()) {
			continue // it holds nothing that others could wait for
		}
		v := c.entry.decide(c.Token, c.Holder, c.unorderedBefore(), t.gate.heldBy(c))
		if c.Unordered {
			v = admit // whatever there is
		}
		if !t.gate.sole && t.grant == nil && (v == admit || v == drain || v == load && c.MaxJump == 0) {
			v = raise // a shared store admits nothing without a grant (R2), and tells with it what is on record
		}
		if v > worst {
			worst, at = v, c
		}
	}
	return worst, at
}

// refusal is the error that ends the ticket now, if any. The locks are held.
func (t *Ticket) refusal(v verdict, c *claim) error {
	switch v {
	case stale:
	case collision:
		return &tokenstore.CollisionError{Key: c.Key, Token: c.Token, Holder: c.Holder, Current: c.entry.durable.holder}
	default:
		return nil
	}
	return &StaleError{Key: c.Key, Token: c.Token, Highest: c.entry.durable.token, Overtaken: t.queue != nil && !t.queue.late}
}

// leave ends a ticket that was not admitted.
func (t *Ticket) leave() {
	t.lock()
	t.phase = over
	t.detach()
	t.unlock()
	t.release()
}

// register counts the write in on all its keys. The locks are held, and the
// decision was taken under them: one atomic step (C, C2). Every lower write is
// over, so the records may say clear (rule 6).
func (t *Ticket) register() {
	if t.read {
		t.phase = over
		t.dequeue()
		t.detach()
		return
	}
	t.phase = inFlight
	for i := range t.claims {
		c := &t.claims[i]
		c.entry.add(c)
		if !c.Suspect && !t.gate.unordered.Load() && !c.entry.durable.clear {
			c.entry.durable.clear, c.entry.dirty, c.toClear = true, true, true
		}
	}
	t.claims[0].shard.open++
}

// tellClear writes clear = t lazily, now that the drain is over (rule 6).
func (t *Ticket) tellClear() {
	for i := range t.claims {
		if c := &t.claims[i]; c.toClear {
			t.gate.store.Clear(c.Key, c.Token)
		}
	}
}
