package embedded

import (
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

const (
	// maxClears bounds the memory of clears that wait; more are dropped, which
	// only costs a wait after a crash (rule 6).
	maxClears = 4096
	// clearDelay is how long clears wait for a batch to ride with.
	clearDelay = 100 * time.Millisecond
)

// clears are the calls of Store.Clear that are not written yet.
type clears struct {
	mu      sync.Mutex // guards what follows
	waiting map[tokenstore.Key]tokenstore.Token
	timer   *time.Timer // set while clears wait
	stopped bool
}

// add notes that token on key is clear; flush is called after clearDelay
// unless they are taken before.
func (c *clears) add(key tokenstore.Key, token tokenstore.Token, flush func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	if old, ok := c.waiting[key]; ok {
		if old.Less(token) {
			c.waiting[key] = token
		}
		return
	}
	if len(c.waiting) >= maxClears {
		return
	}
	if c.waiting == nil {
		c.waiting = map[tokenstore.Key]tokenstore.Token{}
	}
	c.waiting[key] = token
	if c.timer == nil {
		c.timer = time.AfterFunc(clearDelay, flush)
	}
}

// take removes and returns at most n clears; flush is called again soon for
// those that are left. The timer may have called it for this very take: set
// still, it would keep add from setting another one, and nobody would call
// again.
func (c *clears) take(n int, flush func()) map[tokenstore.Key]tokenstore.Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if len(c.waiting) <= n {
		taken := c.waiting
		c.waiting = nil
		return taken
	}
	taken := make(map[tokenstore.Key]tokenstore.Token, n)
	for key, token := range c.waiting {
		if len(taken) == n {
			break
		}
		taken[key] = token
		delete(c.waiting, key)
	}
	c.timer = time.AfterFunc(clearDelay, flush)
	return taken
}

// drop drops what waits of a key that is forgotten: said of its token as it
// was, it must not be believed of the same token when that comes again.
func (c *clears) drop(key tokenstore.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, key)
}

// stop drops what waits: clears may be lost, and Close does not wait for them.
func (c *clears) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.waiting = nil
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
