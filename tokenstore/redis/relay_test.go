package redis_test

import (
	"net"
	"sync"
	"testing"
)

// relay passes bytes between proxies and a server, until it is told not to.
type relay struct {
	addr string

	mu    sync.Mutex // guards what follows
	to    string
	up    *gate // to the server
	down  *gate // and back
	conns map[net.Conn]struct{}
	ended chan struct{} // closed when the test is over: nothing is held back then
}

// gate holds the bytes of one direction back, in their order.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while they pass
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) hold() (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := make(chan struct{})
	g.open = open
	return sync.OnceFunc(func() { close(open) })
}

// pass waits until bytes pass: where it is held again meanwhile, for that too.
func (g *gate) pass(ended chan struct{}) {
	for {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		select {
		case <-open:
		case <-ended:
			return
		}
		g.mu.Lock()
		same := g.open == open
		g.mu.Unlock()
		if same {
			return
		}
	}
}

func startRelay(t testing.TB, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String(), to: to, up: newGate(), down: newGate(), conns: map[net.Conn]struct{}{}, ended: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.serve(c, &wg)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(r.ended)
		r.cut()
		wg.Wait()
	})
	return r
}

func (r *relay) serve(c net.Conn, wg *sync.WaitGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := net.Dial("tcp", r.to)
	if err != nil {
		_ = c.Close()
		return
	}
	up, down := r.up, r.down
	r.conns[c], r.conns[s] = struct{}{}, struct{}{}
	wg.Go(func() { r.copy(s, c, up) })
	wg.Go(func() { r.copy(c, s, down) })
}

// copy passes bytes on, also those of a side that has left meanwhile.
func (r *relay) copy(to, from net.Conn, g *gate) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		g.pass(r.ended)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			break
		}
	}
	_ = to.Close()
	r.mu.Lock()
	delete(r.conns, from)
	r.mu.Unlock()
}

// stall holds all bytes of the connections that there are, and of later ones,
// back: both sides see nothing but silence.
func (r *relay) stall() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	up, down := r.up.hold(), r.down.hold()
	return func() { up(); down() }
}

// abandon holds the bytes of the connections that there are back for ever;
// later ones work, as after a firewall has forgotten what it knew.
func (r *relay) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up.hold()
	r.down.hold()
	r.up, r.down = newGate(), newGate()
}

// cut closes every connection.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

// turn lets later connections go to another server, and closes those that
// there are: a virtual address that moves.
func (r *relay) turn(to string) {
	r.mu.Lock()
	r.to = to
	r.mu.Unlock()
	r.cut()
}

// pairs is how many connections go through it.
func (r *relay) pairs() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns) / 2
}
