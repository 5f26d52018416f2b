package embedded

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

const (
	// maxBatch is the most records of one batch, so that none waits long for
	// the others.
	maxBatch = 1000
	// linger is the longest that a commit waits for the callers that the one
	// before it released. Timers are no use at this scale (the runtime rounds
	// them up to a millisecond when it sleeps), so the wait yields instead.
	linger = 100 * time.Microsecond
)

var errClosed = errors.New("it is closed")

// request is one call of Acquire on its way to the disk, or the change of a
// lease.
type request struct {
	marks []tokenstore.Mark // a copy: the caller may be gone
	lease *leaseAsk         // instead of marks, else nil
	one   [1]tokenstore.Mark
	// forget, where it is not nil, asks for the one key of marks to be forgotten
	// whose record is this one.
	forget *tokenstore.Record
	done   chan error // answered once, never blocks
	err    error      // the committer's: the refusal to answer with once it is durable
}

func newRequest(marks []tokenstore.Mark) *request {
	r := &request{done: make(chan error, 1)}
	r.marks = append(r.one[:0], marks...)
	return r
}

// size is the most records that the request can change.
func (r *request) size() int {
	if r.lease != nil {
		return 1
	}
	return len(r.marks)
}

// group gathers the requests of concurrent callers into batches and has one
// goroutine commit them, one batch after the other.
type group struct {
	// commit answers every request of a batch. An empty batch says that
	// somebody has poked.
	commit func(batch []*request)

	mu     sync.Mutex // guards what follows
	queue  []*request
	poked  bool
	closed bool

	queued atomic.Int64  // len(queue), read by the wait without the lock
	wake   chan struct{} // holds one token while there may be something to do
	ended  chan struct{} // closed when run has returned
}

// startGroup starts the committer; stop ends it.
func startGroup(commit func(batch []*request)) *group {
	g := &group{commit: commit, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go g.run()
	return g
}

// do has marks committed and returns the answer.
func (g *group) do(ctx context.Context, marks []tokenstore.Mark) error {
	return g.ask(ctx, newRequest(marks))
}

// ask has a request committed and returns the answer. When ctx ends first the
// result is unknown: the request is taken back if it still waits in the queue,
// and else its batch goes on without its caller.
func (g *group) ask(ctx context.Context, r *request) error {
	if ctx.Err() != nil {
		return tokenstore.Unavailable(context.Cause(ctx))
	}
	if !g.enqueue(r) {
		return tokenstore.Unavailable(errClosed)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		g.takeBack(r)
		return tokenstore.Unavailable(context.Cause(ctx))
	}
}

func (g *group) enqueue(r *request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.queue = append(g.queue, r)
	g.queued.Store(int64(len(g.queue)))
	g.signal()
	return true
}

// takeBack keeps a disk that hangs from gathering the requests of callers that
// are long gone. It reports whether the request was not begun.
func (g *group) takeBack(r *request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.queue, r)
	if i < 0 {
		return false
	}
	g.queue = slices.Delete(g.queue, i, i+1)
	g.queued.Store(int64(len(g.queue)))
	return true
}

// poke has commit called soon, with an empty batch if nobody asks.
func (g *group) poke() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.poked = true
	g.signal()
}

// stop refuses every later request, answers those that wait with errClosed,
// and returns when the batch under way is over.
func (g *group) stop() {
	g.mu.Lock()
	g.closed = true
	for _, r := range g.queue {
		r.done <- tokenstore.Unavailable(errClosed)
	}
	g.queue = nil
	g.queued.Store(0)
	g.signal()
	g.mu.Unlock()
	<-g.ended
}

func (g *group) signal() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// run commits batch after batch until the group is stopped.
func (g *group) run() {
	defer close(g.ended)
	expected, released := int64(0), time.Time{}
	for {
		<-g.wake
		// Callers that were released together come back together, within
		// microseconds. Without the wait the first of them would have a
		// commit to itself and the others would share the next one, which
		// doubles the number of syncs. A caller that is alone never waits.
		for g.queued.Load() < expected && time.Since(released) < linger {
			runtime.Gosched()
		}
		batch, due, more := g.take()
		if batch == nil && !due {
			if !more {
				return
			}
			continue
		}
		g.commit(batch)
		released = time.Now()
		expected = min(int64(len(batch))+g.queued.Load(), maxBatch)
		if expected <= 1 || len(batch) == 0 {
			expected = 0
		}
	}
}

// take returns the next batch, of at most maxBatch records or one request;
// more is false when the group is stopped.
func (g *group) take() (batch []*request, due, more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false, false
	}
	n, records := 0, 0
	for n < len(g.queue) {
		records += g.queue[n].size()
		if n > 0 && records > maxBatch {
			break
		}
		n++
	}
	due, g.poked = g.poked, false
	if n == 0 {
		return nil, due, true
	}
	batch = slices.Clone(g.queue[:n])
	g.queue = slices.Delete(g.queue, 0, n)
	g.queued.Store(int64(len(g.queue)))
	if len(g.queue) > 0 {
		g.signal()
	}
	return batch, due, true
}
