package sessiontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Fate is what becomes of one call. The zero Fate lets it pass.
type Fate struct {
	// Travel is how long the call, and its answer, are on their way.
	Travel time.Duration
	// Fail is returned at once, and nothing is done.
	Fail error
	// Never, Lost and Late make the caller wait until it gives up. The call is
	// never done; or it is done and its answer is lost; or it is done as much
	// later, by which time the caller may have given up.
	Never, Lost bool
	Late        time.Duration
}

// Port is the way of one proxy to an Engine.
type Port struct {
	engine *Engine
	kick   chan struct{} // capacity 1

	mu     sync.Mutex // guards what follows
	fate   func(op session.Op) Fate
	holds  map[session.Op]*hold
	cut    bool
	deaf   bool
	paused chan struct{} // closed by Resume; nil while it runs
	sink   session.Sink  // of the Watch that runs
	heard  []func(session.Sink)
	calls  map[session.Op]int
}

var _ session.Backend = (*Port)(nil)

// hold is a place where calls wait until it is released.
type hold struct{ released chan struct{} }

var errCut = errors.New("no answer from the store")

// Fates asks f for the fate of every later call; nil lets all pass.
func (p *Port) Fates(f func(op session.Op) Fate) { p.set(func() { p.fate = f }) }

// Cut makes this proxy and the store lose sight of each other, or ends it:
// calls are not done, answers do not come, nothing is heard.
func (p *Port) Cut(on bool) { p.set(func() { p.cut = on }) }

// Deafen makes nothing be heard of other proxies, while calls go on (X7).
func (p *Port) Deafen(on bool) { p.set(func() { p.deaf = on }) }

// Pause stops the proxy where it touches the store: what it asks is not sent,
// and what it is told is not taken up, not even that a call took too long.
func (p *Port) Pause() {
	p.set(func() {
		if p.paused == nil {
			p.paused = make(chan struct{})
		}
	})
}

// Resume ends a pause.
func (p *Port) Resume() {
	p.set(func() {
		if p.paused != nil {
			close(p.paused)
			p.paused = nil
		}
	})
}

// Awake waits while the proxy is paused: for what a test does in its name.
func (p *Port) Awake() {
	for {
		p.mu.Lock()
		paused := p.paused
		p.mu.Unlock()
		if paused == nil {
			return
		}
		<-paused
	}
}

// Hold makes later calls of op wait, before they are done, until release.
func (p *Port) Hold(op session.Op) (release func()) {
	h := &hold{make(chan struct{})}
	p.set(func() { p.holds[op] = h })
	return sync.OnceFunc(func() {
		p.set(func() {
			if p.holds[op] == h {
				delete(p.holds, op)
			}
		})
		close(h.released)
	})
}

// Calls is how many calls of op there were.
func (p *Port) Calls(op session.Op) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[op]
}

func (p *Port) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// expect counts a call and says what becomes of it.
func (p *Port) expect(op session.Op) (f Fate, h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = map[session.Op]int{}
	}
	p.calls[op]++
	if p.fate != nil {
		f = p.fate(op)
	}
	return f, p.holds[op]
}

func (p *Port) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// call takes one call to the engine and back.
func call[T any](ctx context.Context, p *Port, op session.Op, do func() (T, error)) (result T, err error) {
	p.Awake()
	defer p.Awake()
	var zero T
	giveUp := func() (T, error) {
		<-ctx.Done()
		return zero, fmt.Errorf("%w: %w", errCut, context.Cause(ctx))
	}
	f, h := p.expect(op)
	if h != nil {
		select {
		case <-h.released:
		case <-ctx.Done():
			return giveUp()
		}
	}
	switch {
	case ctx.Err() != nil:
		return giveUp()
	case f.Fail != nil:
		return zero, f.Fail
	case !travel(ctx, f.Travel), p.isCut(), f.Never:
		return giveUp()
	case f.Late > 0:
		time.AfterFunc(f.Late, func() { _, _ = do() })
		return giveUp()
	}
	result, err = do()
	if f.Lost || !travel(ctx, f.Travel) || p.isCut() {
		return giveUp()
	}
	return result, err
}

// travel waits for d, and reports false when ctx ended first.
func travel(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Begin implements session.Backend, as do the methods that follow.
func (p *Port) Begin(ctx context.Context, s session.ID, ttl time.Duration) error {
	_, err := call(ctx, p, session.OpBegin, func() (none, error) { return p.engine.begin(s, ttl) })
	return err
}

func (p *Port) KeepAlive(ctx context.Context, s session.ID, ttl time.Duration) ([]tokenstore.Mark, error) {
	return call(ctx, p, session.OpKeepAlive, func() ([]tokenstore.Mark, error) { return p.engine.keepAlive(s, ttl) })
}

func (p *Port) End(ctx context.Context, s session.ID) error {
	_, err := call(ctx, p, session.OpEnd, func() (none, error) { return p.engine.end(s) })
	return err
}

func (p *Port) Sessions(ctx context.Context) (map[session.ID]bool, error) {
	return call(ctx, p, session.OpSessions, p.engine.list)
}

func (p *Port) Acquire(ctx context.Context, s session.ID, wants []session.Want) ([]session.Entry, error) {
	return call(ctx, p, session.OpAcquire, func() ([]session.Entry, error) { return p.engine.acquire(s, wants) })
}

func (p *Port) Delete(ctx context.Context, entries []session.Entry) error {
	_, err := call(ctx, p, session.OpDelete, func() (none, error) { return p.engine.delete(entries) })
	return err
}

func (p *Port) Look(ctx context.Context, keys []tokenstore.Key) ([]session.State, error) {
	return call(ctx, p, session.OpLook, func() ([]session.State, error) { return p.engine.look(keys) })
}

func (p *Port) Entries(ctx context.Context, s session.ID) ([]session.Entry, error) {
	return call(ctx, p, session.OpEntries, func() ([]session.Entry, error) { return p.engine.entries(s) })
}

func (p *Port) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, bool, error) {
	st, err := call(ctx, p, session.OpLoad, func() ([]session.State, error) { return p.engine.look([]tokenstore.Key{key}) })
	if err != nil {
		return tokenstore.Record{}, false, tokenstore.Unavailable(err)
	}
	return st[0].Record, st[0].Exists, nil
}

func (p *Port) List(ctx context.Context, prefix string, after tokenstore.Key, limit int) ([]tokenstore.Listed, tokenstore.Key, error) {
	page, err := call(ctx, p, session.OpList, func() (page, error) { return p.engine.page(prefix, after, limit) })
	return page.keys, page.next, err
}

func (p *Port) Forget(ctx context.Context, key tokenstore.Key, was tokenstore.Record) error {
	_, err := call(ctx, p, session.OpForget, func() (none, error) { return p.engine.forget(key, was) })
	return err
}

func (p *Port) Update(ctx context.Context, change func(old []byte) ([]byte, error)) error {
	for {
		old, err := call(ctx, p, session.OpUpdate, p.engine.remembered)
		if err != nil {
			return err
		}
		next, err := change(bytes.Clone(old))
		if err != nil || bytes.Equal(next, old) {
			return err
		}
		done, err := call(ctx, p, session.OpUpdate, func() (bool, error) { return p.engine.replace(old, next) })
		if err != nil || done {
			return err
		}
	}
}

// Close does nothing: the engine is the test's.
func (p *Port) Close() error { return nil }
