package torture

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// BackendOptions bound what a Backend does.
type BackendOptions struct {
	// Settle is how long after a break it may still apply a write: never
	// later, whatever a plan says. It must be well below the proxy's settle,
	// by as much as the machine may be late.
	Settle time.Duration
	// Patience is how long a write may stay at all, from its whole arrival.
	Patience time.Duration
	// HTTP2 has it speak HTTP/2 in clear text (h2c), and nothing else.
	HTTP2 bool
}

// Backend is the upstream of a test: it speaks HTTP/1.1 over raw sockets, or
// HTTP/2, does what each write's Plan says, and records it. It keeps A1 (settle)
// and A2 (an answer means done) of the protocol, and nothing more.
type Backend struct {
	h    *History
	opts BackendOptions
	ln   net.Listener
	done chan struct{}  // closed by Close
	wg   sync.WaitGroup // the listener, and every connection or stream

	pulse *pulse

	mu    sync.Mutex // guards what follows
	conns map[net.Conn]bool
	marks map[uint32]*mark
}

// mark lets a test wait for a write, and holds it.
type mark struct {
	arrived chan struct{} // closed when the write's head is here
	release chan struct{} // closed by Release
	once    [2]sync.Once
}

// StartBackend listens on a free loopback port and serves until Close.
func StartBackend(h *History, opts BackendOptions) (*Backend, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the backend does not listen: %w", err)
	}
	b := &Backend{h: h, opts: opts, ln: ln, done: make(chan struct{}), conns: map[net.Conn]bool{}, marks: map[uint32]*mark{}}
	b.pulse = newPulse(h)
	b.wg.Go(func() { b.pulse.beat(b.done) })
	if opts.HTTP2 {
		b.wg.Go(b.listenH2)
	} else {
		b.wg.Go(b.listen)
	}
	return b, nil
}

// Late is the longest time for which the test itself has stood still.
func (b *Backend) Late() time.Duration { return b.pulse.longest() }

// blind reports whether a write that is seen at now may have been there for so long
// that the proxy has given it up, and a newer one was seen before it: nobody
// knows their order then.
func (b *Backend) blind(now time.Duration) bool {
	return now-b.pulse.since(now) > b.opts.Patience+b.opts.Settle
}

// URL is the backend's address for upstream.url.
func (b *Backend) URL() string {
	if b.opts.HTTP2 {
		return "h2c://" + b.ln.Addr().String()
	}
	return "http://" + b.ln.Addr().String()
}

// Close ends every connection and waits until nothing can be applied any more.
func (b *Backend) Close() {
	b.mu.Lock()
	select {
	case <-b.done:
	default:
		close(b.done)
		b.ln.Close()
	}
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// Arrived is closed once the head of write id is here.
func (b *Backend) Arrived(id uint32) <-chan struct{} { return b.mark(id).arrived }

// Release lets a held write go on, now or whenever it comes.
func (b *Backend) Release(id uint32) {
	m := b.mark(id)
	m.once[1].Do(func() { close(m.release) })
}

func (b *Backend) mark(id uint32) *mark {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.marks[id]
	if m == nil {
		m = &mark{arrived: make(chan struct{}), release: make(chan struct{})}
		b.marks[id] = m
	}
	return m
}

func (b *Backend) listen() {
	for {
		c, err := b.ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of files for a moment
			b.sleep(5 * time.Millisecond)
			continue
		}
		b.mu.Lock()
		select {
		case <-b.done:
			c.Close()
			b.mu.Unlock()
			return
		default:
		}
		b.conns[c] = true
		b.mu.Unlock()
		b.wg.Go(func() {
			defer func() {
				c.Close()
				b.mu.Lock()
				delete(b.conns, c)
				b.mu.Unlock()
			}()
			b.serve(c)
		})
	}
}

// sleep waits for d, or until Close; it reports whether d is over.
func (b *Backend) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-b.done:
		return false
	}
}
