package gate

// reserve makes sure that the store may have a record of all keys of the ticket
// that have none, before one of them is raised; of the key of only alone where
// that is not nil. Keys that have a record go on, whatever their number. The
// locks are held, and the raise follows.
//
// A key counts here until its raise has ended, and the store counts it before
// that, so that the sum is never too low: concurrent raises do not pass the
// limit, and may be refused for the last free place. Only a raise whose result
// nobody knows can make a record later, when its place was given away.
func (t *Ticket) reserve(only *claim) error {
	n := int64(0)
	for i := range t.claims {
		if c := &t.claims[i]; (only == nil || c == only) && c.makesRecord() {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	g := t.gate
	coming := g.newKeys.Add(n)
	if limit := g.maxKeys.Load(); limit > 0 && (g.count == nil || g.count.Keys()+coming > limit) {
		g.newKeys.Add(-n)
		return ErrTooManyKeys
	}
	t.queue.newKeys = n
	return nil
}

// unreserve gives back what the raise has reserved that has just ended.
func (t *Ticket) unreserve() {
	t.gate.newKeys.Add(-t.queue.newKeys)
	t.queue.newKeys = 0
}

// makesRecord reports whether a raise of the claim makes the first record of its
// key. Where one is under way, that has reserved its place. The lock is held.
func (c *claim) makesRecord() bool {
	return !c.Unordered && !c.entry.durable.exists && !c.entry.raising
}
