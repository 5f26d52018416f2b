package stories

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
)

// The times of the proxies. Between the end of a session in the store and the
// last moment at which one of its writes may land is most of settle: what goes
// on too early is seen.
const (
	ttl    = 6 * time.Second
	margin = 1500 * time.Millisecond
	settle = 4 * time.Second
	soon   = 20 * time.Second // the longest that anything takes
	tick   = 10 * time.Millisecond
)

// rig is one store, its upstream, and two proxies in front of it.
type rig struct {
	*testing.T
	up   *upstream
	a, b *proxy
	look session.Backend // to see what is there
}

// proxy is one proxy: its store, and its ways to the engine.
type proxy struct {
	r       *rig
	name    string
	network *sessiontest.Relay
	way     *way
	clock   *clock
	store   *session.Store

	mu     sync.Mutex
	paused chan struct{} // closed by resume; nil while it runs
}

// lasting is a session that does not end while a test lasts.
func lasting(_ *way, o *session.Options) { o.TTL = 10 * soon }

// newRig starts both. RA's session is short where change does not make it last.
func newRig(t *testing.T, p Place, change ...func(*way, *session.Options)) *rig {
	r := &rig{T: t, up: newUpstream(t), look: p.Open(t, p.Address)}
	t.Cleanup(func() {
		if err := r.look.Close(); err != nil {
			t.Error(err)
		}
	})
	r.a, r.b = r.proxy("RA", p, change...), r.proxy("RB", p, lasting)
	return r
}

func (r *rig) proxy(name string, at Place, change ...func(*way, *session.Options)) *proxy {
	r.Helper()
	p := &proxy{r: r, name: name, network: sessiontest.NewRelay(r, at.Address), clock: &clock{}}
	p.way = &way{Backend: at.Open(r.T, p.network.Address)}
	o := session.Options{TTL: ttl, Margin: margin, Linger: settle, OpTimeout: soon, Clock: p.clock.now,
		PollEvery: 100 * time.Millisecond, SweepEvery: 100 * time.Millisecond, ReconcileEvery: 500 * time.Millisecond}
	for _, f := range change {
		f(p.way, &o)
	}
	var err error
	if p.store, err = session.Open(r.ctx(), p.way, o); err != nil {
		r.Fatal(err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for range p.store.Raised() {
		}
	}()
	r.Cleanup(func() {
		p.network.Hold(false, false)
		_ = p.store.Close(false)
		<-heard
	})
	return p
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	r.Cleanup(cancel)
	return ctx
}

// eventually waits for what happens behind the callers.
func (r *rig) eventually(what string, ok func() bool) {
	r.Helper()
	for end := time.Now().Add(soon); !ok(); time.Sleep(tick) {
		if time.Now().After(end) {
			r.Fatalf("not within %v: %s", soon, what)
		}
	}
}

// open is what stands open on the key of the stories.
func (r *rig) open() []session.Entry {
	r.Helper()
	states, err := r.look.Look(r.ctx(), []tokenstore.Key{key})
	if err != nil {
		r.Fatal(err)
	}
	for _, st := range states {
		if st.Key == key {
			return st.Open
		}
	}
	return nil
}

// owner is the session of the only entry that stands open.
func (r *rig) owner() session.ID {
	r.Helper()
	open := r.open()
	if len(open) != 1 {
		r.Fatalf("%d entries stand open, want one: %v", len(open), open)
	}
	return open[0].Session
}

// goes waits until the store takes a session for gone.
func (r *rig) goes(s session.ID) {
	r.Helper()
	r.eventually("the session goes", func() bool {
		all, err := r.look.Sessions(r.ctx())
		return err == nil && !all[s]
	})
}

// cut makes RA and the store lose sight of each other.
func (p *proxy) cut() { p.network.Hold(true, true) }

// ends waits until the proxy takes its session for over.
func (p *proxy) ends() {
	p.r.Helper()
	p.r.eventually("the session of "+p.name+" is over", func() bool { return p.store.Remaining() == 0 })
}

// pause stops what a gate would do with what it is told.
func (p *proxy) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = make(chan struct{})
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.paused)
	p.paused = nil
}

func (p *proxy) awake() {
	p.mu.Lock()
	paused := p.paused
	p.mu.Unlock()
	if paused != nil {
		<-paused
	}
}

// do lets a write through from the beginning to its end.
func (p *proxy) do(token uint64) {
	p.r.Helper()
	w := p.ask(token).admitted()
	if !w.send() {
		p.r.Fatalf("%s may not be sent", w.name)
	}
	w.answered()
}

// back asks until the proxy has a session again.
func (p *proxy) back(token uint64) *write {
	p.r.Helper()
	var w *write
	p.r.eventually(p.name+" admits again", func() bool {
		w = p.ask(token)
		<-w.asked
		if w.err != nil && !errors.Is(w.err, tokenstore.ErrUnavailable) {
			p.r.Fatalf("%s: %v", w.name, w.err)
		}
		return w.err == nil
	})
	return w
}

// clock is the proxy's, which a test can stop, as a monotonic clock stops while
// the machine is suspended.
type clock struct {
	mu      sync.Mutex
	stopped time.Duration // 0 while it goes
}

func (c *clock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped != 0 {
		return c.stopped
	}
	return session.Boottime()
}

func (c *clock) stop() { c.set(session.Boottime()) }

func (c *clock) goOn() { c.set(0) }

func (c *clock) set(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = d
}
