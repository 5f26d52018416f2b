package gate

// coming are the raises of a key that may make its first record.
type coming struct {
	raises int  // on their way to the disk
	placed bool // the key counts in Gate.newKeys, once for all of them
}

// reserve makes sure that the store may have a record of all keys of the ticket
// that have none, before one of them is raised; of the key of only alone where
// that is not nil. Keys that have a record go on, whatever their number. The
// locks are held, and the raise follows, or unreserve.
//
// A key counts here until it has a record or the last of its raises has ended, and
// the store counts it before that, so that the sum is never too low: concurrent
// raises do not pass the limit, and may be refused for the last free place. Only a
// raise whose result nobody knows can make a record later, when its place was
// given away.
func (t *Ticket) reserve(only *claim) error {
	n := int64(0)
	for i := range t.claims {
		if c := &t.claims[i]; (only == nil || c == only) && c.makesRecord() && !c.entry.coming.placed {
			n++
		}
	}
	if n > 0 {
		g := t.gate
		all := g.newKeys.Add(n)
		if limit := g.maxKeys.Load(); limit > 0 && (g.count == nil || g.count.Keys()+all > limit) {
			g.newKeys.Add(-n)
			return ErrTooManyKeys
		}
	}
	for i := range t.claims {
		if c := &t.claims[i]; (only == nil || c == only) && c.makesRecord() {
			c.comes = true
			c.entry.coming.raises++
			c.entry.coming.placed = true
		}
	}
	return nil
}

// unreserve gives back what the raise has reserved that has just ended. The locks
// are held.
func (t *Ticket) unreserve() {
	for i := range t.claims {
		c := &t.claims[i]
		if !c.comes {
			continue
		}
		c.comes = false
		e := c.entry
		e.coming.raises--
		if e.coming.placed && (e.durable.exists || e.coming.raises == 0) {
			e.coming.placed = false
			t.gate.newKeys.Add(-1)
		}
	}
}

// makesRecord reports whether a raise of the claim makes the first record of its
// key. The lock is held.
func (c *claim) makesRecord() bool { return !c.Unordered && !c.entry.durable.exists }
