package proxy

import (
	"context"
	"sync/atomic"
)

// sessions has the context of the writes under the present session with a
// shared store. One for all of them: a context and a goroutine for each write
// cost more than the whole gate.
type sessions struct {
	present atomic.Pointer[sessionContext]
}

type sessionContext struct {
	ctx  context.Context
	lost <-chan struct{}
}

// until returns a context that ends when lost is closed: what is in flight is
// cut then, and unsettled (R5, R10). Nil stands for a grant that is never lost.
func (s *sessions) until(lost <-chan struct{}) context.Context {
	if lost == nil {
		return context.Background()
	}
	if c := s.present.Load(); c != nil && c.lost == lost {
		return c.ctx
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the session, which the store ends at the latest
		<-lost
		cancel()
	}()
	s.present.Store(&sessionContext{ctx, lost}) // two at the same time are as good as one
	return ctx
}
