package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
)

const (
	ttl    = 10 * time.Second
	margin = 2 * time.Second
	settle = 30 * time.Second
)

// virtual is a clock of a synctest bubble.
func virtual() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// rig is one store, some proxies, and the upstream that they send to.
type rig struct {
	t      *testing.T
	engine *sessiontest.Engine
	begun  time.Time

	mu   sync.Mutex
	last map[tokenstore.Key]tokenstore.Token // applied
	ran  []*proxy
}

// inTime runs f under virtual time, and closes the proxies.
func inTime(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, engine: sessiontest.NewEngine(), begun: time.Now(), last: map[tokenstore.Key]tokenstore.Token{}}
		defer func() {
			for _, p := range r.ran {
				p.port.Resume()
				closeStore(t, p.store, false)
			}
		}()
		f(r)
	})
}

// proxy is one proxy: its store, and what a gate would do with it.
type proxy struct {
	r     *rig
	name  string
	port  *sessiontest.Port
	store *session.Store
	slept atomic.Int64 // that its machine was suspended

	hurried atomic.Int64 // times that it was told that somebody waits
	raised  sync.Map     // the raise that it was told of last, by key
}

func (r *rig) proxy(name string, change ...func(*session.Options)) *proxy {
	r.t.Helper()
	return r.proxyOver(name, func(p *sessiontest.Port) session.Backend { return p }, change...)
}

func (r *rig) proxyOver(name string, over func(*sessiontest.Port) session.Backend, change ...func(*session.Options)) *proxy {
	r.t.Helper()
	p := &proxy{r: r, name: name, port: r.engine.Port()}
	clock := virtual()
	o := session.Options{TTL: ttl, Margin: margin, Linger: settle, IdleAfter: time.Hour,
		Clock: func() time.Duration { return clock() + time.Duration(p.slept.Load()) }}
	for _, f := range change {
		f(&o)
	}
	var err error
	if p.store, err = session.Open(r.t.Context(), over(p.port), o); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		for m := range p.store.Raised() {
			if m.Unordered {
				p.hurried.Add(1)
			} else {
				p.raised.Store(m.Key, m)
			}
		}
	}()
	r.ran = append(r.ran, p)
	synctest.Wait()
	return p
}

// at waits until d after the beginning.
func (r *rig) at(d time.Duration) {
	time.Sleep(time.Until(r.begun.Add(d)))
	synctest.Wait()
}

// write is one write on key k.
type write struct {
	p     *proxy
	name  string
	marks []tokenstore.Mark
	leave context.CancelFunc
	asked chan struct{} // closed when grant and err are set
	grant tokenstore.Grant
	err   error

	mu      sync.Mutex
	pending bool // sent, and may still be applied
	lost    bool // lost from sight
}

func tok(n uint64) tokenstore.Token { return tokenstore.Token{Major: n} }

// ask begins a write on key k.
func (p *proxy) ask(name string, n uint64) *write {
	return p.askFor(name, tokenstore.Mark{Key: "k", Token: tok(n), Clear: true})
}

func (p *proxy) askFor(name string, marks ...tokenstore.Mark) *write {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	w := &write{p: p, name: name, marks: marks, leave: cancel, asked: make(chan struct{})}
	go func() {
		defer close(w.asked)
		defer cancel()
		var g tokenstore.Grant
		if g, w.err = p.store.Acquire(ctx, marks); w.err != nil {
			return
		}
		if w.err = g.Drained(ctx); w.err != nil {
			g.Release()
			return
		}
		w.grant = g
	}()
	synctest.Wait()
	return w
}

// admitted reports whether the write may be sent now.
func (w *write) admitted() bool {
	synctest.Wait()
	select {
	case <-w.asked:
		return w.err == nil
	default:
		return false
	}
}

func (w *write) mustWait() *write {
	w.p.r.t.Helper()
	synctest.Wait()
	select {
	case <-w.asked:
		w.p.r.t.Fatalf("%v: %s does not wait: %v", time.Since(w.p.r.begun), w.name, w.err)
	default:
	}
	return w
}

func (w *write) mustFail(target error) {
	w.p.r.t.Helper()
	synctest.Wait()
	select {
	case <-w.asked:
	default:
		w.p.r.t.Fatalf("%v: %s waits", time.Since(w.p.r.begun), w.name)
	}
	var stale *tokenstore.StaleError
	if target == nil && errors.As(w.err, &stale) {
		return
	}
	if target == nil || !errors.Is(w.err, target) {
		w.p.r.t.Fatalf("%v: %s: %v, want %v", time.Since(w.p.r.begun), w.name, w.err, target)
	}
}

// mustBeStale wants a refusal.
func (w *write) mustBeStale() { w.p.r.t.Helper(); w.mustFail(nil) }

// mustBeAdmitted within d.
func (w *write) mustBeAdmitted(d time.Duration) *write {
	w.p.r.t.Helper()
	for end := time.Now().Add(d); !w.admitted() && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	if !w.admitted() {
		select {
		case <-w.asked:
			w.p.r.t.Fatalf("%v: %s is not admitted: %v", time.Since(w.p.r.begun), w.name, w.err)
		default:
			w.p.r.t.Fatalf("%v: %s still waits", time.Since(w.p.r.begun), w.name)
		}
	}
	return w
}

// send sends the write after the check of R5, and reports whether it did. From
// then on it is cut as soon as its grant is lost.
func (w *write) send() bool {
	if !w.grant.MaySend() {
		w.grant.Release()
		return false
	}
	w.sendLate()
	return true
}

// sendLate sends without a check: one that was made earlier.
func (w *write) sendLate() {
	w.mu.Lock()
	w.pending = true
	w.mu.Unlock()
	go func() {
		<-w.grant.Lost()
		w.p.port.Awake()
		w.lose()
	}()
	synctest.Wait()
}

// lose loses sight of the write: it may still land for settle.
func (w *write) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost || !w.pending {
		return
	}
	w.lost = true
	time.AfterFunc(settle, func() {
		w.mu.Lock()
		w.pending = false
		w.mu.Unlock()
		w.grant.Release()
	})
}

// wasCut reports whether sight of the write was lost.
func (w *write) wasCut() bool {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// lands lets the upstream apply the write, if it still may, and tells whether
// the order is broken.
func (w *write) lands() error {
	w.mu.Lock()
	may := w.pending
	w.pending = false
	answered := may && !w.lost
	w.mu.Unlock()
	if !may {
		return nil
	}
	if answered {
		defer w.grant.Release()
	}
	w.p.r.mu.Lock()
	defer w.p.r.mu.Unlock()
	for _, m := range w.marks {
		if m.Unordered {
			continue
		}
		if last := w.p.r.last[m.Key]; m.Token.Less(last) {
			return fmt.Errorf("%v: %s lands with token %s on %s after %s", time.Since(w.p.r.begun), w.name, m.Token, m.Key, last)
		}
		w.p.r.last[m.Key] = m.Token
	}
	return nil
}

// mustLand is lands in order.
func (w *write) mustLand() {
	w.p.r.t.Helper()
	if err := w.lands(); err != nil {
		w.p.r.t.Error(err)
	}
	synctest.Wait()
}

// do lets a write through from the beginning to the end.
func (p *proxy) do(name string, n uint64) {
	p.r.t.Helper()
	w := p.ask(name, n).mustBeAdmitted(0)
	if !w.send() {
		p.r.t.Fatalf("%s may not be sent", name)
	}
	w.mustLand()
}
