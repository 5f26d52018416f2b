package proxy

import (
	"context"
	"sync"
	"sync/atomic"
)

// sessions has the context of the writes under the present session with a
// shared store. One for all of them: a context and a goroutine for each write
// cost more than the whole gate.
type sessions struct {
	present atomic.Pointer[sessionContext]
}

// until returns a context that ends when lost is closed: what is in flight is
// cut then, and unsettled (R5, R10). Nil stands for a grant that is never lost.
func (s *sessions) until(lost <-chan struct{}) context.Context {
	if lost == nil {
		return context.Background()
	}
	if c := s.present.Load(); c != nil && c.lost == lost {
		return c
	}
	c := newSessionContext(lost)
	s.present.Store(c) // two at the same time are as good as one
	return c
}

// sessionContext ends with a session. Every write of the session watches it,
// so that its AfterFunc, which package context asks for, has several locks and
// no map.
type sessionContext struct {
	context.Context
	lost    <-chan struct{}
	next    atomic.Uint32 // shard
	watches [8]watchShard
}

type watchShard struct {
	mu    sync.Mutex
	over  bool
	first *watcher
	_     [40]byte // a cache line each
}

// watcher is one function to be called at the end, in the list of its shard.
type watcher struct {
	f          func()
	shard      *watchShard
	listed     bool
	prev, next *watcher
}

func newSessionContext(lost <-chan struct{}) *sessionContext {
	ctx, cancel := context.WithCancel(context.Background())
	c := &sessionContext{Context: ctx, lost: lost}
	go func() { // ends with the session, which the store ends at the latest
		<-lost
		cancel()
		for i := range c.watches {
			c.watches[i].end()
		}
	}()
	return c
}

// AfterFunc is context.AfterFunc for this context.
func (c *sessionContext) AfterFunc(f func()) (stop func() bool) {
	s := &c.watches[c.next.Add(1)%uint32(len(c.watches))]
	w := &watcher{f: f, shard: s}
	s.add(w)
	return w.stop
}

func (s *watchShard) add(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		go w.f()
		return
	}
	w.listed, w.next = true, s.first
	if w.next != nil {
		w.next.prev = w
	}
	s.first = w
}

// end calls what is listed, and from here on what is added.
func (s *watchShard) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for w := s.first; w != nil; w = w.next {
		w.listed = false
		go w.f()
	}
	s.first = nil
}

// stop takes w out, and reports whether its function will not be called.
func (w *watcher) stop() bool {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if !w.listed {
		return false
	}
	w.listed = false
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		w.shard.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	return true
}
