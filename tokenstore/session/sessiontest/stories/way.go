package stories

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

var errNoAnswer = errors.New("no answer in time")

// way is a backend on whose way calls may be held up, and whose watch may be
// dead.
type way struct {
	session.Backend
	acquires, deletes calls
	deaf              bool // it hears nothing
}

// calls are those of one kind.
type calls struct {
	mu    sync.Mutex
	held  chan struct{} // they wait until it is closed; nil lets them pass
	late  bool          // their callers give up, and they are made when they arrive
	kept  []func()      // those that are late
	came  int
	ended int
}

// hold makes later calls wait, until release.
func (c *calls) hold() (release func()) {
	held := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.held = nil
		close(held)
	}
}

// delay makes later calls late, until arrive makes all of them.
func (c *calls) delay() (arrive func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = true
	return func() {
		c.mu.Lock()
		kept := c.kept
		c.late, c.kept = false, nil
		c.mu.Unlock()
		for _, call := range kept {
			call()
		}
	}
}

// count is how many have come, and how many of them have ended.
func (c *calls) count() (came, ended int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came, c.ended
}

// pass is the fate of one call.
func (c *calls) pass(ctx context.Context, call func(ctx context.Context) error) error {
	c.mu.Lock()
	c.came++
	held, late := c.held, c.late
	if late {
		c.kept = append(c.kept, func() {
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			_ = call(ctx)
		})
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended++
	}()
	switch {
	case late:
		return errNoAnswer
	case held != nil:
		select {
		case <-held:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return call(ctx)
}

// Watch implements session.Backend, as do the methods that follow.
func (w *way) Watch(ctx context.Context, sink session.Sink) error {
	if w.deaf {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return w.Backend.Watch(ctx, sink)
}

func (w *way) Acquire(ctx context.Context, s session.ID, wants []session.Want) (session.Acquired, error) {
	wants = slices.Clone(wants) // a late one is made when its caller has gone
	var got session.Acquired
	if err := w.acquires.pass(ctx, func(ctx context.Context) (err error) {
		got, err = w.Backend.Acquire(ctx, s, wants)
		return err
	}); err != nil {
		return session.Acquired{}, err
	}
	return got, nil
}

func (w *way) Delete(ctx context.Context, entries []session.Entry) error {
	entries = slices.Clone(entries)
	return w.deletes.pass(ctx, func(ctx context.Context) error { return w.Backend.Delete(ctx, entries) })
}
