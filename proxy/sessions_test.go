package proxy

import (
	"context"
	"sync"
	"sync/atomic"
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
		case <-time.After(soon):
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

// What watches the end of a session is called once, in whatever order it was
// listed and taken out, and what was taken out is not.
func TestSessionContextAfterFunc(t *testing.T) {
	var s sessions
	lost := make(chan struct{})
	ctx := s.until(lost).(*sessionContext)
	var called, stopped [100]atomic.Bool
	var all sync.WaitGroup
	for i := range called {
		all.Add(1)
		stop := ctx.AfterFunc(func() {
			if called[i].Swap(true) {
				t.Errorf("%d is called twice", i)
			}
			all.Done()
		})
		if i%3 == 0 {
			defer func() {
				if stop() {
					t.Errorf("%d was stopped after the end", i)
				}
			}()
			continue
		}
		go func() {
			if stop() {
				stopped[i].Store(true)
				if stop() {
					t.Errorf("%d is stopped twice", i)
				}
				all.Done()
			}
		}()
	}
	close(lost)
	all.Wait() // whoever lost the race was called
	for i := range called {
		if called[i].Load() == stopped[i].Load() {
			t.Errorf("%d: called %v, stopped %v", i, called[i].Load(), stopped[i].Load())
		}
	}
	late := make(chan struct{})
	if stop := ctx.AfterFunc(func() { close(late) }); stop() {
		t.Error("added after the end, and stopped")
	}
	<-late
	if stop := context.AfterFunc(ctx, func() {}); stop() {
		t.Error("package context does not know of the end")
	}
}
