package upstream

import "time"

// A write of the connection's is stuck when the kernel does not take it, and
// with it everything behind it.
const (
	// A write that the kernel does not take for so long sends new requests to
	// another connection, and after h2PassOver those that wait behind it, too. A
	// request that is given up waits so long for its RST_STREAM to be written, and
	// ends a connection that nobody else is on.
	h2StuckWrite = 10 * time.Millisecond
	h2PassOver   = 50 * time.Millisecond
	// The kernel has so long to take what was being written of a request that is
	// given up: it is below any sensible settle time, and far above what a write
	// takes that is not stuck.
	h2LostWrite = 100 * time.Millisecond
)

// hurry bounds the write that runs, for the first who asks: those who ask later
// must not grant it more time. mu is held.
func (c *h2conn) hurry(grace time.Duration) {
	if !c.hurried {
		c.hurried = true
		c.nc.SetWriteDeadline(time.Now().Add(grace))
	}
}

// passOver lets requests go that wait behind a write that is stuck: they chose
// the connection just before. Nothing of them was sent, so they may go on
// another one. The one that the connection was made for has no other attempt:
// it waits, as the write is the first, of a few bytes, and only a machine that
// stands still makes it seem stuck.
func (c *h2conn) passOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = false
	stuck := !c.writing.IsZero() && time.Since(c.writing) >= c.pool.passOver
	for _, it := range c.queue {
		switch {
		case !it.head, it.s.need.last:
		case stuck:
			it.s.lose(ReasonReset, errStuck)
		default:
			c.watch()
		}
	}
}

// watch has passOver look at what is queued, in a while; mu is held.
func (c *h2conn) watch() {
	if !c.watched {
		c.watched = true
		time.AfterFunc(c.pool.passOver, c.passOver)
	}
}
