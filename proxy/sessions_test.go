package proxy

import (
	"context"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/upstream"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// One context serves all writes of a session, and ends with it alone.
func TestSessionContext(t *testing.T) {
	var s sessions
	if ctx := s.until(nil); ctx.Done() != nil {
		t.Error("a grant that is never lost has a context that ends")
	}
	first, second := make(chan struct{}), make(chan struct{})
	a, b := s.until(first), s.until(second)
	if s.until(second) != b {
		t.Error("a second context for one session")
	}
	again := s.until(first) // an old session's write may come late
	close(first)
	for _, ctx := range []context.Context{a, again} {
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("the session is over, and its context is not")
		}
	}
	if b.Err() != nil {
		t.Error("the other session ended with it")
	}
	close(second)
	<-b.Done()
}

// A session that ends between the gate and the first byte is the store's
// trouble, not the upstream's.
func TestSessionOverBeforeSend(t *testing.T) {
	x := &exchange{holds: true, fenced: true}
	for reason, want := range map[upstream.Reason]wire.Name{
		upstream.ReasonCanceled: wire.StoreUnavailable, upstream.ReasonNoLeave: wire.StoreUnavailable, upstream.ReasonReset: wire.UpstreamUnreachable,
	} {
		p := x.problem(&upstream.Error{Outcome: upstream.Outcome{Fate: upstream.NotSent, Reason: reason}, Err: context.Canceled})
		if p.Name() != want || p.Forwarded != wire.ForwardedNo {
			t.Errorf("%s: %s, forwarded %s, want %s", reason, p.Name(), p.Forwarded, want)
		}
	}
}
