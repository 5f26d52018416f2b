package postgres

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore/postgres/postgrestest"
)

// relay is the network between one proxy and its database. It can stop passing
// bytes without closing anything, as a network does.
type relay struct {
	listener net.Listener
	to       string

	mu     sync.Mutex // guards what follows
	cond   *sync.Cond
	cut    bool
	mute   []byte // connections on which the client has sent this are cut off for good
	conns  map[net.Conn]struct{}
	age    int // connections of an age before it are cut off for good
	closed bool
	writes int // that the client has sent, as they came
	wg     sync.WaitGroup
}

func newRelay(t testing.TB, s *postgrestest.Server) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: s.Address(), conns: map[net.Conn]struct{}{}}
	r.cond = sync.NewCond(&r.mu)
	r.wg.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

// set changes what the relay does, for connections that are open too.
func (r *relay) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	r.cond.Broadcast()
}

func (r *relay) setCut(cut bool) { r.set(func() { r.cut = cut }) }

// drop forgets the connections that are open, as a firewall does: they pass
// nothing any more, and new ones are fine.
func (r *relay) drop() { r.set(func() { r.age++ }) }

func (r *relay) close() {
	_ = r.listener.Close()
	r.set(func() {
		r.closed = true
		for c := range r.conns {
			_ = c.Close()
		}
	})
	r.wg.Wait()
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.to)
		if err != nil { // it is being restarted
			_ = client.Close()
			continue
		}
		muted, age := new(bool), 0
		r.set(func() { age = r.age; r.conns[client], r.conns[server] = struct{}{}, struct{}{} })
		r.wg.Go(func() { r.pass(server, client, muted, age, true) })
		r.wg.Go(func() { r.pass(client, server, muted, age, false) })
	}
}

// pass passes bytes one way, and waits while the network is cut.
func (r *relay) pass(to, from net.Conn, muted *bool, age int, upstream bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		r.mu.Lock()
		if upstream && n > 0 {
			r.writes++
			*muted = *muted || r.mute != nil && bytes.Contains(buf[:n], r.mute)
		}
		for (r.cut || age < r.age || *muted && r.mute != nil) && !r.closed {
			r.cond.Wait()
		}
		r.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
