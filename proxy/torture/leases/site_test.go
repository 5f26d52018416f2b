package leases

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// The times of all servers here. A shared store allows pauses of a server of
// (linger + margin - settle) / 2 (R9, A7).
const (
	sessionTTL = 3 * time.Second
	margin     = time.Second
	settle     = 600 * time.Millisecond
	linger     = 2400 * time.Millisecond
	response   = 400 * time.Millisecond
	drain      = 4 * time.Second
	maxPause   = (linger+margin-settle)/2 - 400*time.Millisecond // what a busy machine adds

	// patience is how long a write may take: for older ones, the upstream, and
	// servers that stand still.
	patience = drain + response + settle + 2*maxPause + 3*time.Second
)

// site is one backend, one store, and lease servers in front of the one over
// the other.
type site struct {
	testing.TB
	h       *torture.History
	back    *torture.Backend
	engine  engine
	ledger  *ledger
	servers []*server
}

// server is a lease server, which is a proxy too, and the tap before it.
type server struct {
	*torture.Proxy
	tap    *tap
	direct string // the lease listener itself
}

func newSite(t testing.TB, start func() (engine, error), n int) *site {
	t.Helper()
	h := torture.NewHistory()
	b, err := torture.StartBackend(h, torture.BackendOptions{Settle: settle / 3, Patience: response + settle/3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	s := &site{TB: t, h: h, back: b, engine: newEngine(t, start), ledger: &ledger{h: h, leases: map[string]torture.Event{}}}
	for range n {
		s.servers = append(s.servers, s.newServer())
	}
	if start != nil {
		if _, err := s.servers[0].Run("store", "init"); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range s.servers {
		if err := m.start(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// start starts a server. Over a store that is not there, or takes its time on a
// busy machine, a start fails, and is tried again by who supervises it.
func (m *server) start() error {
	err := m.Start()
	for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); {
		time.Sleep(500 * time.Millisecond)
		err = m.Start()
	}
	return err
}

func (s *site) newServer() *server {
	s.Helper()
	bin, err := torture.Binary()
	if err != nil {
		s.Fatal(err)
	}
	leases, err := torture.FreeAddress()
	if err != nil {
		s.Fatal(err)
	}
	setting := "" // of its own
	if s.engine != nil {
		setting = s.engine.Setting(s.engine.Address())
	}
	p, err := torture.NewProxy(s.h, bin, s.TempDir(), torture.Settings{Upstream: s.back.URL(), Settle: settle, Response: response, Drain: drain,
		Shutdown: 1500 * time.Millisecond, Leases: leases,
		Store: torture.Shared{Engine: setting, TTL: sessionTTL, Margin: margin, Linger: linger}})
	if err != nil {
		s.Fatal(err)
	}
	m := &server{Proxy: p, tap: s.ledger.tap(leases), direct: "http://" + leases}
	s.Cleanup(func() {
		m.tap.front.CloseClientConnections()
		m.tap.front.Close()
	})
	m.KillAfter(s, "a server")
	return m
}

// proxies and doors are where to write to, and where to ask for leases.
func (s *site) proxies() (all []string) {
	for _, m := range s.servers {
		all = append(all, m.Addr)
	}
	return all
}

func (s *site) doors() (all []string) {
	for _, m := range s.servers {
		all = append(all, m.tap.front.URL)
	}
	return all
}

// granted reads the grants out of the logs of all servers, those too whose
// answer nobody got.
func (s *site) granted() (all []logged) {
	for _, m := range s.servers {
		for line := range strings.Lines(m.Log(1 << 30)) {
			var l struct{ Msg, Time, Key, Holder, Token string }
			if json.Unmarshal([]byte(line), &l) != nil || l.Msg != "lease granted" {
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, l.Time)
			token, err2 := strconv.ParseUint(l.Token, 10, 64)
			if err != nil || err2 != nil {
				s.Errorf("a line of the log that nobody can read: %s", line)
			}
			all = append(all, logged{at, strings.TrimPrefix(l.Key, leaseKey("")), l.Holder, token})
		}
	}
	return all
}
