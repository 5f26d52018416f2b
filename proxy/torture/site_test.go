package torture

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// site is a backend with the real proxy in front, for one test.
type site struct {
	*testing.T
	h     *History
	back  *Backend
	proxy *Proxy
	wire  *Relay // between the two; nil for none

	settings Settings
	lim      Limits
	ids      atomic.Uint32
}

// prompt is how long what has nothing to wait for may take on a machine that is
// busy. It is below the times that newSite sets.
const prompt = 15 * time.Second

// newSite starts both; what Settings leave out is short where a test would
// wait for it, and long where it must not happen: a test that asks for one of
// them says so.
func newSite(t *testing.T, s Settings) *site {
	t.Helper()
	bin, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	return newSiteOf(t, bin, s, nil)
}

// newSiteOf is newSite with another binary, and with a relay between the proxy
// and the backend where wire makes one.
func newSiteOf(t *testing.T, bin string, s Settings, wire func(h *History, to string) *Relay) *site {
	t.Helper()
	if s.Settle == 0 {
		s.Settle = 20 * time.Second
	}
	if s.Response == 0 {
		s.Response = 20 * time.Second
	}
	if s.Drain == 0 {
		s.Drain = 20 * time.Second
	}
	if s.Shutdown == 0 {
		s.Shutdown = 5 * time.Second
	}
	h := NewHistory()
	b, err := StartBackend(h, BackendOptions{Settle: s.Settle / 3, Patience: s.Response + s.Settle/3, HTTP2: s.HTTP2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	s.Upstream = b.URL()
	var relay *Relay
	if wire != nil {
		scheme, addr, _ := strings.Cut(b.URL(), "://")
		relay = wire(h, addr)
		s.Upstream = scheme + "://" + relay.Addr
	}
	p, err := NewProxy(h, bin, t.TempDir(), s)
	if err != nil {
		t.Fatal(err)
	}
	p.KillAfter(t, "the proxy")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return &site{T: t, h: h, back: b, proxy: p, settings: s, wire: relay, lim: Limits{Settle: s.Settle, Unsettled: map[uint16]bool{202: true, 502: true, 504: true}}}
}

// write makes a write with a new ID.
func (s *site) write(key string, token uint64, plan Plan) Write {
	return Write{ID: s.ids.Add(1), Key: key, Token: token, Plan: plan}
}

// do sends w over a fresh connection and waits for what comes of it.
func (s *site) do(w Write) Reaction {
	c := Client{Addr: s.proxy.Addr, H: s.h}
	defer c.Close()
	return c.Do(w)
}

// goes sends w and returns at once.
func (s *site) goes(w Write) <-chan Reaction {
	ch := make(chan Reaction, 1)
	go func() { ch <- s.do(w) }()
	return ch
}

// held sends a write that the backend holds, and waits until it is there.
func (s *site) held(key string, token uint64) (Write, <-chan Reaction) {
	s.Helper()
	w := s.write(key, token, Plan{Hold: true})
	ch := s.goes(w)
	s.arrives(w, prompt)
	return w, ch
}

// arrives waits until w is at the backend and returns when that was.
func (s *site) arrives(w Write, within time.Duration) time.Duration {
	s.Helper()
	select {
	case <-s.back.Arrived(w.ID):
	case <-time.After(within):
		s.Fatalf("write %d on %s with token %d did not arrive at the backend within %v", w.ID, w.Key, w.Token, within)
	}
	e, _ := s.h.Find(Arrive, w.ID)
	return e.At
}

// staysAway fails where w is at the backend before d is over. Nothing but time
// can show it.
func (s *site) staysAway(w Write, d time.Duration) {
	s.Helper()
	select {
	case <-s.back.Arrived(w.ID):
		s.Fatalf("write %d on %s with token %d arrived at the backend, too soon", w.ID, w.Key, w.Token)
	case <-time.After(d):
	}
}

// raised waits until the key's highest is token, on the disk: the answer to a
// stale write names it. The key has been written before, with a token above 0.
func (s *site) raised(key string, token uint64) {
	s.Helper()
	want := strconv.FormatUint(token, 10)
	for end := time.Now().Add(prompt); ; {
		r := s.do(s.write(key, 0, Plan{}))
		if r.Problem.Highest == want {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("the highest of %s is %q (status %d, %v), want %s", key, r.Problem.Highest, r.Status, r.Err, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// waits sends w, and returns when the proxy has it and keeps it back.
func (s *site) waits(w Write) <-chan Reaction {
	s.Helper()
	ch := s.goes(w)
	s.raised(w.Key, w.Token)
	s.staysAway(w, 50*time.Millisecond)
	return ch
}

// quarantined reports whether a key with a record is held back since the start.
func (s *site) quarantined(key string) bool {
	s.Helper()
	return s.told(key).Until != ""
}

// waiting waits until so many writes wait on a key.
func (s *site) waiting(key string, n int) {
	s.Helper()
	for end := time.Now().Add(prompt); ; time.Sleep(5 * time.Millisecond) {
		k := s.told(key)
		if k.Waiting == n {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("%d writes wait on %s, want %d", k.Waiting, key, n)
		}
	}
}

// known is what the admin listener tells of a key.
type known struct {
	Until   string `json:"quarantined_until"`
	Waiting int    `json:"waiting"`
}

func (s *site) told(key string) (k known) {
	s.Helper()
	resp, err := s.proxy.web.Get(s.proxy.Admin + "/v1/keys/thing:" + key)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&k); err != nil || resp.StatusCode != http.StatusOK {
		s.Fatalf("key %s: %s, %v", key, resp.Status, err)
	}
	return k
}

// get waits for a reaction.
func (s *site) get(ch <-chan Reaction) Reaction {
	s.Helper()
	select {
	case r := <-ch:
		return r
	case <-time.After(40 * time.Second):
		s.Fatal("no reaction")
		return Reaction{}
	}
}

// wants checks a reaction: its status, the problem's name, and where given
// Fencing-Forwarded and Fencing-Result.
func (s *site) wants(r Reaction, status int, name, forwarded, result string) {
	s.Helper()
	if r.Status != status || r.Problem.Name() != name {
		s.Errorf("status %d, problem %q (%s; %v), want %d, %q", r.Status, r.Problem.Name(), r.Problem.Detail, r.Err, status, name)
		return
	}
	if got := r.Header.Get("Fencing-Forwarded"); forwarded != "" && got != forwarded {
		s.Errorf("Fencing-Forwarded: %q, want %q", got, forwarded)
	}
	if got := r.Header.Get("Fencing-Result"); result != "" && got != result {
		s.Errorf("Fencing-Result: %q, want %q", got, result)
	}
}

// ok sends a plain write and wants it done.
func (s *site) ok(key string, token uint64) time.Duration {
	s.Helper()
	r := s.do(s.write(key, token, Plan{}))
	s.wants(r, 200, "", "yes", "admitted")
	return r.At
}

// restart starts the proxy again and returns when its process began.
func (s *site) restart() time.Duration {
	s.Helper()
	at := s.h.Now()
	if err := s.proxy.Start(); err != nil {
		s.Fatal(err)
	}
	return at
}

// judge ends the site's proxy and holds all judges against what happened.
func (s *site) judge() {
	s.Helper()
	s.proxy.Kill()
	s.back.Close()
	if s.wire != nil {
		s.wire.Close()
	}
	events := s.h.Events()
	found := Verdict(events, s.lim)
	for _, b := range found {
		s.Error(b)
	}
	if len(found) > 0 {
		s.h.Keep(s)
	}
}
