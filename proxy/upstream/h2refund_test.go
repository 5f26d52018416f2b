package upstream

import (
	"errors"
	"testing"
)

// An upload that is stopped between its share of the connection's window and its
// next part gives that back: it is never sent, so that the upstream never does, and
// the connection would have less for all that come behind.
func TestH2RefundsWhatWasReserved(t *testing.T) {
	const all = 100
	c := &h2conn{window: all, streams: map[uint32]*h2stream{}}
	c.wake.L = &c.mu
	s := &h2stream{c: c, r: put(), need: h2need{upload: true}, window: all, flow: make(chan struct{}, 1), halt: make(chan struct{})}
	n, err := s.reserve(10)
	if n != 10 || err != nil || c.window != all-10 {
		t.Fatalf("%d bytes (%v), and %d are left on the connection", n, err, c.window)
	}
	c.mu.Lock()
	s.stop("")
	c.mu.Unlock()
	if err := s.put(h2item{data: make([]byte, n)}); !errors.Is(err, errStopped) || c.window != all {
		t.Errorf("put: %v; %d bytes may be sent on the connection, want %d", err, c.window, all)
	}
}
