package gate

import (
	"context"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// What a gate over a shared store does for writes that are unordered or only
// looked on: other proxies wait for them by their entries in the store.

// nowhere reports whether c is of a write whose key nobody knows.
func (c *claim) nowhere() bool { return c.Unordered && c.Key == "" }

// needsEntry reports whether the ticket, which is only looked on and would be
// refused, has nothing in the store yet for which others could wait. An entry
// with its token, where it has one, is below that of whoever overtook it.
func (t *Ticket) needsEntry() bool {
	return !t.gate.sole && t.grant == nil && !t.read && !t.claims[0].nowhere()
}

// enterUnordered gets one for each of its keys, below every token. Where the
// store fails there is none: nothing that is only looked on is refused for
// that, and no other proxy waits for it then.
func (g *Gate) enterUnordered(ctx context.Context, t *Ticket) {
	marks := make([]tokenstore.Mark, len(t.claims))
	for i := range t.claims {
		marks[i] = tokenstore.Mark{Key: t.claims[i].Key, Unordered: true}
	}
	if grant, err := g.store.Acquire(ctx, marks); err == nil {
		t.grant = grant
	}
}

// hurryOlder is overtake for a ticket that waits in the store. Which entries it
// waits for only the store knows: those of the unordered writes that came behind
// its place, too, up to when it was asked. The locks are held.
func (t *Ticket) hurryOlder() {
	t.queue.overtook = true
	for i := range t.claims {
		if c := &t.claims[i]; !c.Unordered {
			c.entry.hurry(c.Token)
		}
	}
}

// hurry tells writes that are unordered or only looked on that one with token
// waits in the store for them. One that is not registered yet may have its entry
// there, found by who waits, who does not ask again: it is told when it registers
// (see add). The lock is held.
func (e *entry) hurry(token tokenstore.Token) {
	e.hurries++
	for c := e.registered; c != nil; c = c.next {
		if c.Unordered || c.ticket.looks && c.Token.Less(token) {
			c.ticket.pass()
		}
	}
}
