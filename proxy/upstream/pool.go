package upstream

import (
	"net"
	"os"
	"sync"
	"time"
)

// maxIdle bounds the connections that are kept while nobody needs them.
const maxIdle = 256

// pool keeps idle connections, so that the newest is used first and the rest
// grow old. A connection is in it only when nothing on it is open to doubt (see
// exchange.reusable).
type pool struct {
	ttl time.Duration // how long one may be idle; 0: none is kept

	mu     sync.Mutex
	idle   []idleConn  // oldest first
	timer  *time.Timer // drops what is too old; runs while idle is not empty
	closed bool
}

type idleConn struct {
	net.Conn
	since time.Time
}

// get returns an idle connection on which the upstream has said nothing since
// the last answer; nil where there is none.
func (p *pool) get() net.Conn {
	for {
		p.mu.Lock()
		n := len(p.idle) - 1
		if n < 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n]
		p.idle[n] = idleConn{}
		p.idle = p.idle[:n]
		p.mu.Unlock()
		if time.Since(c.since) < p.ttl && quiet(c.Conn) {
			return c.Conn
		}
		c.Close()
	}
}

// put keeps c, or closes it. Its next deadline is until, zero where that is not
// known: one that comes when c has been dropped for its age is left as it is, for
// the next exchange to replace.
func (p *pool) put(c net.Conn, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		hangUp(c)
		return
	}
	if s, ok := c.(*secure); ok {
		s.rest()
	}
	now := time.Now()
	if until.Sub(now) <= p.ttl {
		c.SetDeadline(time.Time{})
	}
	p.idle = append(p.idle, idleConn{c, now})
	if p.timer == nil {
		p.timer = time.AfterFunc(p.ttl, p.expire)
	}
}

// expire closes what is too old, and comes again for the rest.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := 0
	for old < len(p.idle) && time.Since(p.idle[old].since) >= p.ttl {
		hangUp(p.idle[old].Conn)
		old++
	}
	p.idle = append(p.idle[:0], p.idle[old:]...)
	if len(p.idle) == 0 || p.closed {
		p.timer = nil
		return
	}
	p.timer.Reset(p.ttl - time.Since(p.idle[0].since))
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		hangUp(c.Conn)
	}
	p.idle = nil
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// quiet reports whether nothing, not even an end, can be read from c. Bytes that
// come before a request would be taken for its answer.
func quiet(c net.Conn) bool {
	if s, ok := c.(*secure); ok {
		return s.quiet()
	}
	l := looks.Get().(*look)
	defer looks.Put(l)
	_, err := l.readNow(c, l.byte[:])
	return err == os.ErrDeadlineExceeded
}
