package sessiontest

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// soon is the longest that a call that works may take here, and short a TTL
// that the suite waits for. Engines that count in whole seconds get along.
const (
	soon  = 10 * time.Second
	long  = time.Minute
	short = 4 * time.Second
)

// Run holds an engine's adapter to the promises of session.Backend. place makes
// a new, empty store and returns what opens one more way to it, as another
// proxy has. The suite closes them. It runs in real time, and takes some
// seconds for what expires.
func Run(t *testing.T, place func(t *testing.T) (open func(t *testing.T) session.Backend)) {
	t.Helper()
	for _, group := range [][]check{sessionChecks, acquireChecks, entryChecks, noticeChecks, unorderedChecks, leaseChecks, keyChecks} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				open := place(t)
				c.run(t, func() *proxy {
					b := open(t)
					p := &proxy{Backend: b, t: t}
					t.Cleanup(p.close)
					return p
				})
			})
		}
	}
}

// check is one promise.
type check struct {
	name string
	run  func(t *testing.T, open func() *proxy)
}

// proxy is one way to the store, with a session.
type proxy struct {
	session.Backend
	t      *testing.T
	id     session.ID
	nonce  uint64
	raised bool   // by the last acquire
	stop   func() // of the watch
}

func (p *proxy) close() {
	if p.stop != nil {
		p.stop()
	}
	if err := p.Close(); err != nil {
		p.t.Errorf("Close: %v", err)
	}
}

func (p *proxy) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	p.t.Cleanup(cancel)
	return ctx
}

// begin gives the proxy a new session. The watch runs first, since some
// engines cannot keep a session without it.
func (p *proxy) begin(ttl time.Duration) *proxy {
	p.t.Helper()
	if p.stop == nil {
		p.watch(ignore{})
	}
	_, _ = rand.Read(p.id[:])
	if err := p.Begin(p.ctx(), p.id, ttl); err != nil {
		p.t.Fatalf("Begin: %v", err)
	}
	return p
}

// watch tells sink what the proxy hears, until the test ends.
func (p *proxy) watch(sink session.Sink) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := p.Watch(ctx, sink); ctx.Err() == nil {
				p.t.Logf("Watch: %v", err)
				time.Sleep(10 * time.Millisecond)
			}
		}
	}()
	p.stop = func() { cancel(); <-ended }
}

// ignore hears nothing.
type ignore struct{}

func (ignore) Raised(tokenstore.Mark) {}
func (ignore) Gone(session.Entry)     {}
func (ignore) Changed(tokenstore.Key) {}

func token(n uint64) tokenstore.Token { return tokenstore.Token{Major: n} }

func mark(key tokenstore.Key, n uint64) tokenstore.Mark {
	return tokenstore.Mark{Key: key, Token: token(n)}
}

// acquire asks for marks, each with a new nonce, and returns their entries too.
func (p *proxy) acquire(marks ...tokenstore.Mark) (mine, older []session.Entry, err error) {
	wants := make([]session.Want, len(marks))
	for i, m := range marks {
		p.nonce++
		nonce := p.nonce
		if m.Unordered {
			nonce |= session.UnorderedNonce
		}
		wants[i] = session.Want{Mark: m, Nonce: nonce}
		mine = append(mine, session.Entry{Key: m.Key, Token: m.Token, Session: p.id, Nonce: nonce})
	}
	got, err := p.Acquire(p.ctx(), p.id, wants)
	p.raised = got.Raised
	return mine, got.Older, err
}

// mustAcquire wants exactly these older entries.
func (p *proxy) mustAcquire(marks []tokenstore.Mark, want ...session.Entry) []session.Entry {
	p.t.Helper()
	mine, older, err := p.acquire(marks...)
	if err != nil {
		p.t.Fatalf("Acquire(%v): %v", marks, err)
	}
	same(p.t, "older", older, want)
	return mine
}

func (p *proxy) mustDelete(entries ...session.Entry) {
	p.t.Helper()
	if err := p.Delete(p.ctx(), entries); err != nil {
		p.t.Fatalf("Delete: %v", err)
	}
}

// open is what Look finds on a key.
func (p *proxy) open(key tokenstore.Key) []session.Entry {
	p.t.Helper()
	states, err := p.Look(p.ctx(), []tokenstore.Key{key})
	if err != nil {
		p.t.Fatalf("Look(%q): %v", key, err)
	}
	var open []session.Entry
	for _, st := range states {
		if st.Key == key {
			open = append(open, st.Open...)
		}
	}
	return open
}

func (p *proxy) sessions() map[session.ID]bool {
	p.t.Helper()
	all, err := p.Sessions(p.ctx())
	if err != nil {
		p.t.Fatalf("Sessions: %v", err)
	}
	return all
}

// same fails the test where the entries are not these, in any order.
func same(t *testing.T, what string, got, want []session.Entry) {
	t.Helper()
	left := map[session.Entry]int{}
	for _, e := range want {
		left[e]++
	}
	for _, e := range got {
		left[e]--
	}
	for e, n := range left {
		if n != 0 {
			t.Fatalf("%s = %v, want %v (%d times too few: %v)", what, got, want, n, e)
		}
	}
}

// eventually waits for what the engine tells late.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", soon, what)
		}
	}
}
