package proxy

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
)

// deadline is a store whose grants are over before anybody is told.
type deadline struct {
	tokenstore.Store
	over atomic.Bool
}

func (d *deadline) Acquire(ctx context.Context, marks []tokenstore.Mark) (tokenstore.Grant, error) {
	g, err := d.Store.Acquire(ctx, marks)
	return ending{g, d}, err
}

type ending struct {
	tokenstore.Grant
	of *deadline
}

func (e ending) MaySend() bool { return !e.of.over.Load() }

// A process that was frozen past the deadline of its session finds what the client
// has sent meanwhile, maybe before it finds that the session is over.
func TestWebSocketLeaveEnds(t *testing.T) {
	store := &deadline{Store: memory.New()}
	g, err := gate.New(store, gate.Options{Settle: testSettle})
	if err != nil {
		t.Fatal(err)
	}
	s := newSockets(t, time.Minute)
	s.handler.Gate = g
	c, u, _ := s.open("/feed/1", "X-Fencing-Token: 1\n")
	expect(t, c.br, "hello")
	say(t, c, "one")
	expect(t, u.br, "one")
	store.over.Store(true)
	say(t, c, "two")
	expectEnd(t, u.br, true)
	expectEnd(t, c.br, true)
	if why := s.lost(); why != "cut" {
		t.Errorf("it counts as %q, want cut", why)
	}
}
