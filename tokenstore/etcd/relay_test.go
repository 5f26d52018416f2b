package etcd_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
)

// relay stands between a proxy and etcd. It can stop passing bytes on, which
// to both sides looks like a network that has gone: connections stay open.
type relay struct {
	endpoint string
	target   string
	ln       net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	pass    *sync.Cond // on mu: something has changed
	calls   bool       // what goes to etcd is held back
	answers bool       // what comes from etcd is
	closed  bool
	conns   []net.Conn
}

func newRelay(t testing.TB, s *etcdtest.Server) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{endpoint: "http://" + ln.Addr().String(), target: strings.TrimPrefix(s.Endpoint, "http://"), ln: ln}
	r.pass = sync.NewCond(&r.mu)
	r.wg.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) close() {
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

// hold stops calls or answers, or lets them go on.
func (r *relay) hold(calls, answers bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.answers = calls, answers
	r.pass.Broadcast()
}

func (r *relay) accept() {
	for {
		client, err := r.ln.Accept()
		if err != nil {
			return
		}
		etcd, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, etcd)
		if r.closed {
			_, _ = client.Close(), etcd.Close()
		}
		r.mu.Unlock()
		r.wg.Go(func() { r.copy(etcd, client, &r.calls) })
		r.wg.Go(func() { r.copy(client, etcd, &r.answers) })
	}
}

// copy passes bytes on while held is false.
func (r *relay) copy(to, from net.Conn, held *bool) {
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
