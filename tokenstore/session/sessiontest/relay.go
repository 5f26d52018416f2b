package sessiontest

import (
	"net"
	"sync"
	"testing"
)

// Relay is the network between one proxy and its engine. It can stop passing
// bytes on, which to both sides looks like a network that has gone: connections
// stay open.
type Relay struct {
	// Address is where the proxy finds the engine.
	Address string

	target string
	ln     net.Listener
	wg     sync.WaitGroup

	mu      sync.Mutex
	pass    *sync.Cond // on mu: something has changed
	calls   bool       // what goes to the engine is held back
	answers bool       // what comes from it is
	closed  bool
	conns   []net.Conn
}

// NewRelay starts a relay to the address of an engine, until the test ends.
func NewRelay(t testing.TB, target string) *Relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Address: ln.Addr().String(), target: target, ln: ln}
	r.pass = sync.NewCond(&r.mu)
	r.wg.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *Relay) close() {
	r.mu.Lock()
	r.closed = true
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.pass.Broadcast()
	r.mu.Unlock()
	_ = r.ln.Close()
	r.wg.Wait()
}

// Hold holds calls or answers back, or lets them go on, late.
func (r *Relay) Hold(calls, answers bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.answers = calls, answers
	r.pass.Broadcast()
}

func (r *Relay) accept() {
	for {
		proxy, err := r.ln.Accept()
		if err != nil {
			return
		}
		engine, err := net.Dial("tcp", r.target)
		if err != nil { // it is being restarted
			_ = proxy.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, proxy, engine)
		if r.closed {
			_, _ = proxy.Close(), engine.Close()
		}
		r.mu.Unlock()
		r.wg.Go(func() { r.copy(engine, proxy, &r.calls) })
		r.wg.Go(func() { r.copy(proxy, engine, &r.answers) })
	}
}

// copy passes bytes on while held is false.
func (r *Relay) copy(to, from net.Conn, held *bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		r.mu.Lock()
		for *held && !r.closed {
			r.pass.Wait()
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
