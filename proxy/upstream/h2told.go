package upstream

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/net/http2"
)

var errUntold = fmt.Errorf("the upstream could not be told of a request that was given up, as it takes no bytes on the connection: %w", net.ErrClosed)

// tell has the upstream told that the stream is given up; mu is held. Where that is
// a write that is lost from sight, told is closed when RST_STREAM is written, or the
// connection has ended while it was queued.
func (s *h2stream) tell() {
	if s.c.err != nil {
		return // it hears of the connection's end
	}
	if s.settles && s.judge().Fate == Unsettled {
		s.told = make(chan struct{})
	}
	id := s.id
	s.c.push(h2item{control: func(w *http2.Framer) { w.WriteRSTStream(id, http2.ErrCodeCancel) }, told: s.told})
}

// outcome is what is known by now. Only the caller's goroutine calls it.
//
// The settle time of a write that is lost begins when this returns: not before the
// upstream can know, as what it does about a request that breaks off, it does when
// it hears of that. A process that stands still between the two, for longer than
// settle, would let a newer write go first. Others' bytes on the connection may be
// why that takes long: it is not their fault, and not waited for. But where it goes
// on the end of the connection tells: see overdue.
func (s *h2stream) outcome() Outcome {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	o := s.judge()
	if told := s.told; told != nil && o.Fate == Unsettled {
		s.told = nil
		c.mu.Unlock()
		select {
		case <-told:
			c.mu.Lock()
		case <-time.After(h2StuckWrite):
			c.mu.Lock()
			c.overdue(told)
		}
	}
	return o
}

// overdue ends a connection on which told does not come; mu is held. The upstream
// would else hear of the loss when settle has long begun. Others have a little time
// more: if the same write still runs, they wait behind it as well, and go with
// it. There is nothing to wait for without others, or where nothing can be written
// any more, though answers might still be there to be read.
func (c *h2conn) overdue(told <-chan struct{}) {
	switch {
	case isClosed(told): // just now
		return
	case c.open == 0 || c.writeErr != nil:
		c.fail(errUntold)
		return
	}
	running := c.writing
	time.AfterFunc(h2LostWrite, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.writing.Equal(running) && !isClosed(told) {
			c.fail(errUntold)
		} else {
			c.overdue(told)
		}
	})
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// judge is judge of outcome.go; mu is held.
func (s *h2stream) judge() Outcome {
	return s.c.pool.u.judge(facts{
		left:   s.left || !s.over, // what may still be written counts as having left
		sent:   s.sent,
		whole:  s.ended,
		status: s.head.status,
		lost:   s.lost,
		upload: s.failed,
	})
}
