package upstream

import (
	"fmt"
	"net"
	"time"
)

var errOwed = fmt.Errorf("the upstream did not take a request that was given up, and the kernel would go on sending it: %w", net.ErrClosed)

// owe sees to it that what the kernel has taken of a write that was given up is
// thrown away where the upstream does not take it soon (see dropAtEnd); mu is held.
// The connection may live on for others, and they go with it: they wait behind the
// same bytes.
func (s *h2stream) owe() {
	c := s.c
	if !s.settles || !s.left || c.err != nil || s.upTo <= c.owed {
		return
	}
	c.owed = s.upTo
	time.AfterFunc(h2LostWrite, func() { c.collect(h2LostWrite) })
}

// collect fails a connection that owes something. A write that runs makes it seem
// to: for the others' sake that is waited for, but not for long.
func (c *h2conn) collect(patience time.Duration) {
	const pause = 10 * time.Millisecond
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil || !c.owes():
	case !c.writing.IsZero() && patience > 0:
		time.AfterFunc(pause, func() { c.collect(patience - pause) })
	default:
		c.fail(errOwed)
	}
}

// owes reports whether the upstream may not have taken all that is owed; mu is
// held. Bytes of a write that runs are not told from others: it may say so
// wrongly then, and never the other way round.
func (c *h2conn) owes() bool { return c.owed > 0 && c.wire-int64(untaken(c.nc)) < c.owed }

// end closes the connection behind its goodbye.
func (c *h2conn) end() {
	c.mu.Lock()
	owes := c.owes()
	c.mu.Unlock()
	if owes {
		c.nc.Close()
		return
	}
	hangUp(c.nc)
}
