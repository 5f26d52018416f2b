package upstream

import (
	"errors"
	"time"
)

var errOwed = errors.New("the upstream did not take a request that was given up, and the kernel would go on sending it")

// owe sees to it that what the kernel has taken of a followed request that was
// given up is thrown away where the upstream does not take it soon (see
// dropAtEnd); mu is held. The connection may live on for others, and they go with
// it: they wait behind the same bytes.
func (s *h2stream) owe() {
	c := s.c
	if !s.r.Follow || !s.left || c.err != nil || s.upTo <= c.owed {
		return
	}
	c.owed = s.upTo
	time.AfterFunc(h2LostWrite, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err == nil && c.owes() {
			c.fail(errOwed)
		}
	})
}

// owes reports whether the upstream may not have taken all that is owed; mu is
// held. Bytes of a write that runs make it say so too early, never too late.
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
