package shared

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
)

// relayed is how many bytes of one direction a relay keeps at the most while it
// passes none on. A side that sends more has to wait, and its leaving is not
// noticed until then.
const relayed = 4 << 20

// relay is the network between a proxy and one of its neighbours. It can hold
// all bytes back, in their order: both sides see nothing but silence.
type relay struct {
	addr, to string
	ln       net.Listener
	wg       sync.WaitGroup
	// upstream says that the neighbour is the backend. What is still under way
	// when the proxy leaves is then lost, and the backend hears of it at once:
	// else a network that delivers late would break settle (A1), and no proxy
	// could help it. A store has to live with late calls (X10, X12).
	upstream bool

	mu     sync.Mutex // guards what follows
	change *sync.Cond // on mu
	held   bool
	closed bool
	conns  map[net.Conn]bool
}

func newRelay(t testing.TB, to string, upstream bool) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: ln.Addr().String(), to: to, ln: ln, upstream: upstream, conns: map[net.Conn]bool{}}
	r.change = sync.NewCond(&r.mu)
	r.wg.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	_ = r.ln.Close()
	r.reset()
	r.wg.Wait()
}

// hold stops passing bytes on, or passes all of them on again.
func (r *relay) hold(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = on
	r.change.Broadcast()
}

// reset breaks every connection, so that both sides see an error.
func (r *relay) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		breakOff(c)
	}
	r.change.Broadcast()
}

func breakOff(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (r *relay) accept() {
	for {
		proxy, err := r.ln.Accept()
		if err != nil {
			return
		}
		other, err := net.Dial("tcp", r.to)
		if err != nil {
			breakOff(proxy)
			continue
		}
		r.mu.Lock()
		r.conns[proxy], r.conns[other] = true, true
		if r.closed {
			breakOff(proxy)
			breakOff(other)
		}
		r.mu.Unlock()
		out, back := &way{relay: r, from: proxy, to: other, drops: r.upstream}, &way{relay: r, from: other, to: proxy}
		for _, w := range []*way{out, back} {
			r.wg.Go(w.read)
			r.wg.Go(w.write)
		}
	}
}

// way is one direction of one connection. Its fields are guarded by relay.mu.
type way struct {
	relay    *relay
	from, to net.Conn
	drops    bool // what is under way is lost when from leaves

	bytes []byte
	err   error // from has ended
	over  bool  // to has
}

// read takes bytes in while they are held, too, so that it notices who leaves.
func (w *way) read() {
	r := w.relay
	buf := make([]byte, 64<<10)
	for {
		n, err := w.from.Read(buf)
		r.mu.Lock()
		w.bytes = append(w.bytes, buf[:n]...)
		w.err = err
		r.change.Broadcast()
		if err != nil && w.drops {
			w.over = true
			breakOff(w.to)
		}
		for len(w.bytes) > relayed && !w.over && !r.closed {
			r.change.Wait()
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
	r := w.relay
	for {
		r.mu.Lock()
		for (r.held || len(w.bytes) == 0 && w.err == nil) && !w.over && !r.closed {
			r.change.Wait()
		}
		bytes, err := w.bytes, w.err
		w.bytes = nil
		stop := w.over || r.closed
		r.change.Broadcast()
		r.mu.Unlock()
		if !stop && len(bytes) > 0 {
			_, werr := w.to.Write(bytes)
			stop = werr != nil
		} else {
			stop = true
		}
		if !stop {
			continue
		}
		if errors.Is(err, syscall.ECONNRESET) {
			breakOff(w.to)
		}
		r.mu.Lock()
		w.over = true
		delete(r.conns, w.from)
		r.change.Broadcast()
		r.mu.Unlock()
		_, _ = w.to.Close(), w.from.Close()
		return
	}
}
