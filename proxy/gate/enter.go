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
	if g.sole || g.keeps == nil || len(t.claims) > 1 || c.Unordered || t.read {
		return
	}
	if grant, ok := g.keeps.Held(tokenstore.Mark{Key: c.Key, Token: c.Token, Holder: c.Holder}); ok {
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
			grace := t.overtakes(ctx)
			t.unlock()
			err = t.await(ctx, v, c, grace)
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
	switch v {
	case raise:
		marks = t.lift()
	case pending:
		// A raise that failed left its token in memory: it counts, so this
		// write puts it on the disk before it is told that it is stale.
		marks = c.repeat()
	}
	t.unlock()
	switch {
	case v == load:
		return g.load(ctx, t)
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
		if c.Unordered && !g.opts.Unordered {
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
		if c.Unordered {
			continue
		}
		v := c.entry.decide(c.Token, c.Holder, c.unorderedBefore(), t.gate.heldBy(c))
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

// mayWait makes sure that the ticket stands among the waiters of its keys,
// and tells whether it may go on. The locks are held. Before a ticket has its
// place it has raised nothing.
func (t *Ticket) mayWait() error {
	g := t.gate
	if g.stopping.Load() {
		return ErrStopping
	}
	if t.queue != nil {
		return t.queue.failed()
	}
	if limit := g.opts.MaxWaitingPerKey; limit > 0 {
		for i := range t.claims {
			// A higher token is let in: those who wait are stale as soon as it is
			// on the disk, and must not keep the new holder out until then.
			c := &t.claims[i]
			if !c.Unordered && len(c.entry.waiters)-c.entry.lookers >= limit && !(c.entry.hasHigh && c.entry.high.Less(c.Token)) {
				return ErrOverloaded
			}
		}
	}
	if limit := g.opts.MaxWaiting; limit > 0 && g.waiting.Load() >= int64(limit) {
		return ErrOverloaded
	}
	t.enqueue()
	return nil
}

// enqueue puts the ticket among the waiters of its keys. The locks are held.
func (t *Ticket) enqueue() {
	if !t.looks {
		t.gate.waiting.Add(1)
	}
	t.queue = &queue{woken: make(chan struct{}, 1)}
	for i := range t.claims {
		if c := &t.claims[i]; !c.Unordered {
			c.place = c.entry.placeOf(c.Token)
			c.entry.waiters = append(c.entry.waiters, c)
			if t.looks {
				c.entry.lookers++
			}
		}
	}
}

// overtakes decides when the older writes are told that one with a token waits
// for them. A raise has told those with a lower token; an unordered one, and one
// that is only looked on, go on until then: a new holder tells them at once, and
// one that has been there, who may well wait for a write of his own side, after
// half of his patience, when grace ends. The locks are held.
func (t *Ticket) overtakes(ctx context.Context) (grace <-chan time.Time) {
	switch {
	case t.queue.overtook:
	case t.queue.waited.Raised || t.queue.grace != nil && !t.queue.grace.After(time.Now()):
		t.overtake()
	default:
		if t.queue.grace == nil {
			end, _ := ctx.Deadline()
			half := time.Now().Add(time.Until(end) / 2)
			t.queue.grace = &half
		}
		return time.After(time.Until(*t.queue.grace))
	}
	return nil
}

// overtake tells them. None comes behind: those that register later are not
// waited for.
func (t *Ticket) overtake() {
	t.queue.overtook = true
	for i := range t.claims {
		c := &t.claims[i]
		for o := c.entry.registered; o != nil && !c.Unordered; o = o.next {
			if c.waitsFor(o) {
				o.ticket.pass()
			}
		}
	}
}

// unqueue takes the ticket from the waiters again, if it is among them. The
// entries are held still: by the registration, or until leave.
func (t *Ticket) unqueue() {
	if t.queue == nil {
		return
	}
	t.lock()
	t.dequeue()
	t.unlock()
}

// dequeue is unqueue with the locks held; the second call does nothing.
func (t *Ticket) dequeue() {
	if t.queue == nil || t.queue.left {
		return
	}
	t.queue.left = true
	if !t.looks {
		t.gate.waiting.Add(-1)
	}
	for i := range t.claims {
		e, c := t.claims[i].entry, &t.claims[i]
		if at := slices.Index(e.waiters, c); at >= 0 {
			e.waiters = slices.Delete(e.waiters, at, at+1)
			if t.looks {
				e.lookers--
			}
		}
	}
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
		if !c.Suspect && !t.gate.opts.Unordered && !c.entry.durable.clear {
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

// await waits until one of the keys changes, grace ends, the client leaves or
// time is up.
func (t *Ticket) await(ctx context.Context, v verdict, c *claim, grace <-chan time.Time) error {
	select {
	case <-t.queue.woken:
		return nil
	case <-grace:
		return nil
	case <-t.gate.stop:
		return ErrStopping
	case <-t.Lost():
		return fmt.Errorf("%w: the session with it is over", tokenstore.ErrUnavailable) // R10
	case <-ctx.Done():
	}
	if left(ctx) {
		return ErrLeft
	}
	if v != drain {
		return fmt.Errorf("%w: a raise took longer than drain_timeout", tokenstore.ErrUnavailable)
	}
	t.lock()
	defer t.unlock()
	t.keepPlaces()
	return &DrainTimeoutError{Key: c.Key, RetryAfter: t.retryAfter(), Quarantined: t.gate.heldBy(c) != quarantineNone}
}

// keepPlaces keeps the ticket's places for its next attempt. The locks are
// held.
func (t *Ticket) keepPlaces() {
	for i := range t.claims {
		c := &t.claims[i]
		e := c.entry
		if c.Unordered || e.overtaken(c.Token) || e.kept != nil && e.keptFor == c.Token {
			continue
		}
		kept := c.place
		e.kept, e.keptFor = &kept, c.Token
	}
}

// retryAfter is the time until the last older write of all keys is settled,
// 0 where one is in flight. The locks are held.
func (t *Ticket) retryAfter() time.Duration {
	var last time.Time
	for i := range t.claims {
		c := &t.claims[i]
		if t.gate.heldBy(c) != quarantineNone && t.gate.quarantineEnd.After(last) {
			last = t.gate.quarantineEnd
		}
		for o := c.entry.registered; o != nil; o = o.next {
			switch {
			case !c.waitsFor(o):
			case o.ticket.phase == inFlight:
				return 0
			case o.ticket.lost.until.After(last):
				last = o.ticket.lost.until
			}
		}
	}
	return max(0, time.Until(last))
}
