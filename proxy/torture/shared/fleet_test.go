package shared

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// The times of a fleet, where a test does not say otherwise: its sessions outlive
// what a busy machine does. Pauses of a proxy may take (linger + margin - settle) / 2
// (R9, A7).
const (
	ttl      = 6 * time.Second
	margin   = 2 * time.Second
	settle   = time.Second
	linger   = 2 * time.Second
	response = 400 * time.Millisecond
	drain    = 4 * time.Second
)

// gone is when the entries of a proxy that has ended are removed by others, at
// the latest: its session runs out, that is seen, and linger passes.
const gone = ttl + linger + 2*time.Second

// prompt is how long what has nothing to wait for may take on a machine that is
// busy.
const prompt = 15 * time.Second

// fleet is one backend, one store, and several proxies in front of the one
// over the other.
type fleet struct {
	testing.TB
	h       *torture.History
	back    *torture.Backend
	engine  engine
	members []*member
	lim     torture.Limits
	ids     atomic.Uint32
}

// member is one proxy and the ways to its neighbours.
type member struct {
	*torture.Proxy
	name   string
	store  *torture.Relay
	origin *torture.Relay
}

// newFleet starts all of it, with n proxies.
func newFleet(t testing.TB, start func() (engine, error), n int, s torture.Settings) *fleet {
	t.Helper()
	f := assemble(t, start, n, s)
	out, err := f.members[0].Run("store", "init")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(strings.TrimSpace(out))
	for _, m := range f.members {
		if err := m.start(); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// assemble is newFleet without a store and with nothing started.
func assemble(t testing.TB, start func() (engine, error), n int, s torture.Settings) *fleet {
	t.Helper()
	if s.Response == 0 {
		s.Response = 20 * time.Second
	}
	if s.Drain == 0 {
		s.Drain = 20 * time.Second
	}
	if s.Store.Linger == 0 {
		s.Store.Linger = linger
	}
	if s.Store.TTL == 0 {
		s.Store.TTL, s.Store.Margin = ttl, margin
	}
	s.Settle = settle
	h := torture.NewHistory()
	b, err := torture.StartBackend(h, torture.BackendOptions{Settle: settle / 3, Patience: s.Response + settle/3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	f := &fleet{TB: t, h: h, back: b, engine: newEngine(t, start),
		lim: torture.Limits{Settle: settle, Several: true, Unsettled: map[uint16]bool{202: true, 502: true, 504: true}}}
	for i := range n {
		f.members = append(f.members, f.newMember(string(rune('A'+i)), s))
	}
	return f
}

func (f *fleet) newMember(name string, s torture.Settings) *member {
	f.Helper()
	bin, err := torture.Binary()
	if err != nil {
		f.Fatal(err)
	}
	m := &member{name: name,
		store:  f.relay(f.engine.Address(), torture.RelayOptions{}),
		origin: f.relay(strings.TrimPrefix(f.back.URL(), "http://"), torture.RelayOptions{Drops: true})}
	s.Upstream, s.Store.Engine = "http://"+m.origin.Addr, f.engine.Setting(m.store.Addr)
	dir, err := os.MkdirTemp(f.TempDir(), name)
	if err != nil {
		f.Fatal(err)
	}
	if m.Proxy, err = torture.NewProxy(f.h, bin, dir, s); err != nil {
		f.Fatal(err)
	}
	m.KillAfter(f, "proxy "+name)
	return m
}

// start starts a proxy. Over a store that is not there, or takes its time as a
// PostgreSQL does that has crashed on a busy machine, a start fails, and is tried
// again by who supervises it; one that is refused (exit status 2) is not.
func (m *member) start() error {
	err := m.Start()
	for end := time.Now().Add(30 * time.Second); err != nil && !strings.Contains(err.Error(), "exit status 2") && time.Now().Before(end); {
		time.Sleep(500 * time.Millisecond)
		err = m.Start()
	}
	return err
}

// relay is the network between a proxy and one of its neighbours.
func (f *fleet) relay(to string, o torture.RelayOptions) *torture.Relay {
	f.Helper()
	r, err := torture.StartRelay(to, o)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(r.Close)
	return r
}

// fault notes in the history what is about to be done to whom.
func (f *fleet) fault(format string, a ...any) time.Duration {
	return f.h.Add(torture.Event{Kind: torture.Fault, Name: fmt.Sprintf(format, a...)})
}

// write makes a write with a new ID.
func (f *fleet) write(key string, token uint64) torture.Write {
	return torture.Write{ID: f.ids.Add(1), Key: key, Token: token}
}

// held is a write that the backend keeps until Release.
func (f *fleet) held(key string, token uint64) torture.Write {
	w := f.write(key, token)
	w.Plan.Hold = true
	return w
}

// do sends w through a proxy and waits for what comes of it.
func (f *fleet) do(m *member, w torture.Write) torture.Reaction {
	c := torture.Client{Addr: m.Addr, H: f.h}
	defer c.Close()
	if w.Patience == 0 {
		w.Patience = 25 * time.Second
	}
	return c.Do(w)
}

// goes sends w and returns at once.
func (f *fleet) goes(m *member, w torture.Write) <-chan torture.Reaction {
	ch := make(chan torture.Reaction, 1)
	go func() { ch <- f.do(m, w) }()
	return ch
}

// arrives waits until w is at the backend and returns when that was.
func (f *fleet) arrives(w torture.Write, within time.Duration) time.Duration {
	f.Helper()
	select {
	case <-f.back.Arrived(w.ID):
	case <-time.After(within):
		f.Fatalf("write %d on %s with token %d did not arrive within %v", w.ID, w.Key, w.Token, within)
	}
	return f.when(torture.Arrive, w)
}

// when is when the first event of that kind happened to w, at the earliest where
// it may have been seen late; 0 for never.
func (f *fleet) when(kind torture.Kind, w torture.Write) time.Duration {
	e, _ := f.h.Find(kind, w.ID)
	if e.Since > 0 {
		return e.Since
	}
	return e.At
}

// get waits for a reaction.
func (f *fleet) get(ch <-chan torture.Reaction) torture.Reaction {
	f.Helper()
	select {
	case r := <-ch:
		return r
	case <-time.After(40 * time.Second):
		f.Fatal("no reaction")
		return torture.Reaction{}
	}
}

// wants checks a reaction: its status, the problem's name, and where given
// Fencing-Forwarded.
func (f *fleet) wants(r torture.Reaction, status int, name, forwarded string) {
	f.Helper()
	if r.Status != status || r.Problem.Name() != name {
		f.Errorf("status %d, problem %q (%s; %v), want %d, %q", r.Status, r.Problem.Name(), r.Problem.Detail, r.Err, status, name)
		return
	}
	if got := r.Header.Get("Fencing-Forwarded"); forwarded != "" && got != forwarded {
		f.Errorf("Fencing-Forwarded: %q, want %q", got, forwarded)
	}
}

// ok sends a plain write and wants it done.
func (f *fleet) ok(m *member, key string, token uint64) {
	f.Helper()
	f.wants(f.do(m, f.write(key, token)), 200, "", "yes")
}

// ask gets a page of a proxy's admin listener.
func (m *member) ask(path string) (status int, text string) {
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(m.Admin + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// eventually waits for what happens behind the callers.
func (f *fleet) eventually(within time.Duration, what string, ok func() bool) {
	f.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("not within %v: %s", within, what)
		}
	}
}

// ready waits until a proxy admits again.
func (f *fleet) ready(m *member) {
	f.Helper()
	f.eventually(30*time.Second, "proxy "+m.name+" is ready", func() bool { status, _ := m.ask("/readyz"); return status == 200 })
}

// judge ends everything and holds all judges against what happened.
func (f *fleet) judge() {
	f.Helper()
	for _, m := range f.members {
		m.Kill()
	}
	f.back.Close()
	for _, breach := range torture.Verdict(f.h.Events(), f.lim) {
		f.Error(breach)
	}
	if f.Failed() {
		f.h.Keep(f)
	}
}
