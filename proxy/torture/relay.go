package torture

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// RelayOptions say what kind of network a Relay is.
type RelayOptions struct {
	// Drops says that who dials is the proxy, and the other side its backend.
	// What is still under way when the proxy leaves is then lost, and the backend
	// hears of it at once: else a network that delivers late would break settle
	// (A1), and no proxy could help it. A store has to live with late calls (X10,
	// X12).
	Drops bool
	// Harm says what is done to the n-th connection; nil does nothing.
	Harm func(n int) Harm
	// Told is called when a harm is about to be done.
	Told func(Harm)
}

// Relay is the network between two neighbours. It can harm single connections,
// hold all bytes back, in their order (both sides see nothing but silence),
// break everything off, and refuse who comes.
type Relay struct {
	Addr string // where one side dials to

	to      string
	opts    RelayOptions
	wg      sync.WaitGroup
	dialing sync.Mutex // one Dial at a time

	mu     sync.Mutex // guards what follows
	ln     net.Listener
	far    net.Conn // that Dial has made for the connection that comes next
	taken  *sync.Cond
	held   bool
	closed bool
	links  map[*link]bool
	made   int // connections so far
}

// StartRelay listens on a free loopback port and hands on to address to.
func StartRelay(to string, o RelayOptions) (*Relay, error) {
	addr, err := FreeAddress() // Refuse gives it away and takes it again
	if err != nil {
		return nil, err
	}
	r := &Relay{Addr: addr, to: to, opts: o, links: map[*link]bool{}}
	r.taken = sync.NewCond(&r.mu)
	if err := r.listen(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Relay) listen() error {
	ln, err := net.Listen("tcp", r.Addr)
	if err != nil {
		return fmt.Errorf("the relay to %s does not listen: %w", r.to, err)
	}
	r.mu.Lock()
	r.ln = ln
	r.mu.Unlock()
	r.wg.Go(func() { r.accept(ln) })
	return nil
}

// Close breaks everything off and waits until nothing is passed on any more.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.taken.Broadcast()
	_ = r.ln.Close()
	r.mu.Unlock()
	r.Reset()
	r.wg.Wait()
}

// Hold stops passing bytes on, or passes all of them on again.
func (r *Relay) Hold(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = on
	for l := range r.links {
		l.wake()
	}
}

// Reset breaks every connection, so that both sides see an error.
func (r *Relay) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.snap()
		l.wake()
	}
}

// Refuse lets nobody connect any more, or lets them in again. The connections
// that there are go on.
func (r *Relay) Refuse(on bool) error {
	if !on {
		return r.listen()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ln.Close()
}

func (r *Relay) accept(ln net.Listener) {
	for {
		near, err := ln.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		far := r.far
		r.far = nil
		r.taken.Broadcast()
		r.mu.Unlock()
		if far == nil {
			if far, err = net.Dial("tcp", r.to); err != nil {
				breakOff(near)
				continue
			}
		}
		r.join(near, far)
	}
}

// Dial connects through the relay, and fails as a dial without it would where
// the other side is not there.
func (r *Relay) Dial() (net.Conn, error) {
	far, err := net.DialTimeout("tcp", r.to, 5*time.Second)
	if err != nil {
		return nil, err
	}
	r.dialing.Lock()
	defer r.dialing.Unlock()
	r.mu.Lock()
	r.far = far
	r.mu.Unlock()
	c, err := net.DialTimeout("tcp", r.Addr, 5*time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	for err == nil && r.far != nil && !r.closed {
		r.taken.Wait()
	}
	if r.far != nil {
		_ = far.Close()
		r.far = nil
	}
	return c, err
}

func (r *Relay) join(near, far net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var harm Harm
	if r.opts.Harm != nil {
		harm = r.opts.Harm(r.made)
	}
	r.made++
	l := &link{near: near, far: far}
	l.ways[0] = &way{relay: r, link: l, from: near, to: far, drops: r.opts.Drops}
	l.ways[1] = &way{relay: r, link: l, from: far, to: near}
	if harm.Back {
		l.ways[1].harm = harm
	} else {
		l.ways[0].harm = harm
	}
	if r.closed {
		l.snap()
	}
	r.links[l] = true
	for _, w := range l.ways {
		w.change = sync.NewCond(&r.mu)
		r.wg.Go(w.read)
		r.wg.Go(w.write)
	}
}
