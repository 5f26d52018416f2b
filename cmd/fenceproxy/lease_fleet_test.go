package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// leaseFleet is two proxies, which lend leases over one shared store, in front of
// one API. A write with the body "held" stays in flight there until it is let go.
type leaseFleet struct {
	*testing.T
	thing   string // that is written to, and leased
	members [2]*leaseMember
	arrived chan string // the bodies of held writes
	letGo   chan struct{}
}

// leaseMember is one of the proxies.
type leaseMember struct {
	*torture.Proxy
	leases string // URL
}

// fleetSettle is how long what a proxy has lost from sight may still land.
const fleetSettle = 500 * time.Millisecond

// newLeaseFleet starts them over a store, with settings of the rule beside.
func newLeaseFleet(t *testing.T, store, thing string, s torture.Settings) *leaseFleet {
	t.Helper()
	f := &leaseFleet{T: t, thing: thing, arrived: make(chan string, 8), letGo: make(chan struct{})}
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); string(b) == "held" {
			f.arrived <- r.Header.Get("X-Fencing-Token")
			<-f.letGo
		}
	}))
	t.Cleanup(api.Close)
	t.Cleanup(func() { close(f.letGo) }) // before: a failed test may leave a write there
	binary, err := exec.LookPath("fenceproxy")
	if err != nil {
		t.Fatal(err)
	}
	s.Upstream, s.Settle, s.Response, s.Drain = api.URL, fleetSettle, lockPatience, lockPatience
	// Longer than a busy machine stands still: else a session is over, and its
	// writes are refused, though nobody has killed its proxy.
	s.Store = torture.Shared{Engine: store, TTL: 8 * time.Second, Margin: 2 * time.Second, Linger: fleetSettle}
	for i := range f.members {
		s.Leases = freeAddress(t)
		p, err := torture.NewProxy(torture.NewHistory(), binary, t.TempDir(), s)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if out, err := p.Run("store", "init"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		m := &leaseMember{p, "http://" + s.Leases}
		f.members[i] = m
		m.KillAfter(t, fmt.Sprint("proxy ", i))
		f.starts(m)
	}
	return f
}

func (f *leaseFleet) starts(m *leaseMember) {
	f.Helper()
	if err := m.Start(); err != nil {
		f.Fatal(err)
	}
}

// lease asks the lease API of a proxy, and fails where it answers otherwise.
func (f *leaseFleet) lease(m *leaseMember, method string, what wire.LeaseRequest, status int) (l wire.Lease) {
	f.Helper()
	l, got, err := f.asks(m, method, what)
	if err != nil || got != status {
		f.Fatalf("%s of the lease: %d %v, want %d: %+v", method, got, err, status, l)
	}
	return l
}

func (f *leaseFleet) asks(m *leaseMember, method string, what wire.LeaseRequest) (l wire.Lease, status int, err error) {
	b, err := json.Marshal(what)
	if err != nil {
		return l, 0, err
	}
	req, err := http.NewRequest(method, m.leases+wire.LeasesPath+"thing:"+f.thing, strings.NewReader(string(b)))
	if err != nil {
		return l, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return l, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		err = json.NewDecoder(resp.Body).Decode(&l)
	}
	return l, resp.StatusCode, err
}

// waitsFor asks for the lease at a proxy until it has it, and returns as soon as
// others can see that it waits, or that it has it but for the drain.
func (f *leaseFleet) waitsFor(m *leaseMember, ttl time.Duration) <-chan wire.Lease {
	f.Helper()
	got := make(chan wire.Lease, 1)
	before := f.seen(m)
	go func() {
		l, status, err := f.asks(m, http.MethodPost, wire.LeaseRequest{Holder: "waiter", TTL: wire.Duration(ttl), Wait: wire.Duration(lockPatience)})
		if err != nil || status != http.StatusCreated {
			f.Errorf("the waiter got %d %v %+v", status, err, l)
		}
		got <- l
	}()
	for end := time.Now().Add(lockPatience); f.seen(m) == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			f.Fatal("nobody sees the waiter")
		}
	}
	return got
}

// seen is what others see of the lease.
func (f *leaseFleet) seen(m *leaseMember) string {
	f.Helper()
	l, status, err := f.asks(m, http.MethodGet, wire.LeaseRequest{})
	if err != nil {
		f.Fatal(err)
	}
	return fmt.Sprint(status, l.Holder, l.Token, l.Waiting)
}

// has waits for what is on its way.
func has[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(lockPatience):
		t.Fatalf("%s does not come", what)
	}
	return v
}

// write puts into the thing through a proxy, with a token or with "" for none.
func (f *leaseFleet) write(m *leaseMember, token, text string) (status int, result string, err error) {
	req, err := http.NewRequest(http.MethodPut, "http://"+m.Addr+"/things/"+f.thing, strings.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("X-Fencing-Token", token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get(wire.HeaderResult), err
}

// writes fails where a write is answered otherwise.
func (f *leaseFleet) writes(m *leaseMember, token string, status int, result string) {
	f.Helper()
	if got, said, err := f.write(m, token, "x"); err != nil || got != status || said != result {
		f.Errorf("a write with %q: %d %s %v, want %d %s", token, got, said, err, status, result)
	}
}

// holds has a write in flight at the API, and returns what its client will get.
func (f *leaseFleet) holds(m *leaseMember, token string) <-chan string {
	f.Helper()
	answered := make(chan string, 1)
	go func() {
		status, result, err := f.write(m, token, "held")
		answered <- fmt.Sprint(status, " ", result, " ", err)
	}()
	has(f.T, "the held write", f.arrived)
	return answered
}
