package torture

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// relayed is how many bytes of one way a relay keeps at the most while it
// passes none on. A side that sends more has to wait, and its leaving is not
// noticed until then.
const relayed = 4 << 20

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

// link is one connection: its two halves, and the way from each to the other.
type link struct {
	near, far net.Conn // of who dialed, and of who was dialed
	ways      [2]*way
	ended     int // ways; guarded by relay.mu
}

// snap breaks both halves off. The far one comes first: a backend must not hear
// later than the proxy that they have lost sight of each other.
func (l *link) snap() {
	breakOff(l.far)
	breakOff(l.near)
}

func (l *link) shut() { _, _ = l.far.Close(), l.near.Close() }

func (l *link) wake() {
	for _, w := range l.ways {
		w.change.Broadcast()
	}
}

func breakOff(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// way is one direction of one connection.
type way struct {
	relay    *Relay
	link     *link
	from, to net.Conn
	drops    bool // what is under way is lost when from leaves

	// The writer's alone.
	harm   Harm
	passed int
	mute   bool // nothing is passed on any more

	change *sync.Cond // on relay.mu, which guards what follows
	bytes  []byte
	err    error // from has ended
	over   bool  // what is under way is lost
}

var relayBuffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// read takes bytes in while they are held, too, so that it notices who leaves.
func (w *way) read() {
	r := w.relay
	buf := relayBuffers.Get().(*[16 << 10]byte)
	defer relayBuffers.Put(buf)
	for {
		n, err := w.from.Read(buf[:])
		r.mu.Lock()
		w.bytes = append(w.bytes, buf[:n]...)
		w.err = err
		if err != nil && w.drops {
			w.over = true
			w.link.snap()
		}
		w.change.Broadcast()
		for len(w.bytes) > relayed && !w.over && !r.closed {
			w.change.Wait()
		}
		stop := err != nil || w.over || r.closed
		r.mu.Unlock()
		if stop {
			return
		}
	}
}

// write passes them on, and the end of from behind them.
func (w *way) write() {
	defer w.end()
	for {
		bytes, err, ok := w.next()
		switch {
		case !ok:
			return
		case len(bytes) > 0:
			w.pass(bytes)
		case errors.Is(err, syscall.ECONNRESET):
			w.link.snap()
			return
		default:
			if !w.mute {
				w.finish()
			}
			return
		}
	}
}

// next waits for what can be passed on; it is false when nothing can any more.
func (w *way) next() (bytes []byte, err error, ok bool) {
	r := w.relay
	r.mu.Lock()
	defer r.mu.Unlock()
	for (r.held || len(w.bytes) == 0 && w.err == nil) && !w.over && !r.closed {
		w.change.Wait()
	}
	bytes, w.bytes = w.bytes, nil
	w.change.Broadcast()
	return bytes, w.err, !w.over && !r.closed
}

// pass passes bytes on, up to where the way is harmed. A receiver that is not
// there any more costs this way alone: what it has said may still be heard.
func (w *way) pass(bytes []byte) {
	if w.harm.How != "" && w.passed+len(bytes) > w.harm.After {
		h := w.harm
		w.harm = Harm{}
		n := max(0, h.After-w.passed)
		w.send(bytes[:n])
		bytes = bytes[n:]
		w.suffer(h)
	}
	w.send(bytes)
}

func (w *way) send(bytes []byte) {
	if w.mute || len(bytes) == 0 {
		return
	}
	w.passed += len(bytes)
	if _, err := w.to.Write(bytes); err != nil {
		w.mute = true
	}
}

// suffer does the harm.
func (w *way) suffer(h Harm) {
	if w.mute {
		return
	}
	if told := w.relay.opts.Told; told != nil {
		told(h)
	}
	switch h.How {
	case HarmDelay:
		time.Sleep(h.Wait)
		w.relay.mu.Lock()
		w.mute = w.over
		w.relay.mu.Unlock()
	case HarmCut:
		w.mute = true
		w.link.shut()
	case HarmReset:
		w.mute = true
		w.link.snap()
	case HarmTruncate:
		w.finish()
		w.mute = true
	}
}

// finish tells the receiver that nothing more comes; it may still speak itself.
func (w *way) finish() {
	if tcp, ok := w.to.(*net.TCPConn); !ok || tcp.CloseWrite() != nil {
		w.link.shut()
	}
}

func (w *way) end() {
	w.relay.mu.Lock()
	defer w.relay.mu.Unlock()
	w.over = true
	w.change.Broadcast()
	if w.link.ended++; w.link.ended == len(w.link.ways) {
		w.link.shut()
		delete(w.relay.links, w.link)
	}
}
