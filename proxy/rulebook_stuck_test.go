package proxy

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// Fenced writes of before a reload may hold a newly fenced one up, since it is
// not known which of them are on its resource. Their clients must not, for ever.
func TestFencedByReloadOutlastsFenced(t *testing.T) {
	goesOn := func(r *rig) {
		r.Helper()
		r.reload(fenceLogin(cutDrain))
		after := r.dial().send(put("/login"))
		at := r.next()
		for at.r.RequestURI != "/login" { // what came of an upload that was cut
			at.answer()
			at = r.next()
		}
		at.answer()
		if res := after.receive(); res.StatusCode != 200 {
			r.Errorf("%s %s", res.Status, res.body)
		}
	}
	// L1
	t.Run("an upload", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		before := r.dial().send("PUT /accounts/7 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 100000\n\n" + strings.Repeat("x", 2000))
		r.eventually("it is in flight", func() bool { return r.gate.Counts().InFlight == 1 })
		goesOn(r)
		if p := before.problem(before.receive()); p.Name() != wire.OutcomeUnknown && p.Name() != wire.UpstreamUnreachable {
			t.Errorf("%+v", p)
		}
	})
	t.Run("an upload that comes byte by byte, before the gate", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		before := r.dial().send("PUT /accounts/7 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 1000\n\nx")
		go func() {
			for range 900 { // for longer than the write behind it waits
				time.Sleep(10 * time.Millisecond)
				if _, err := before.Write([]byte("x")); err != nil {
					return
				}
			}
		}()
		r.eventually("it is under way", func() bool { return r.handler.books.current.Load().writes.Load() == 2 })
		goesOn(r)
		if p := before.problem(before.receive()); p.Name() != wire.Overloaded || p.Forwarded != wire.ForwardedNo {
			t.Errorf("%+v", p)
		}
	})
	// L2
	t.Run("an answer that is not read", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		before := r.dial()
		_ = before.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		before.put("7", "x")
		at := r.next()
		go func() {
			_, _ = io.WriteString(at.w, strings.Repeat("y", 16<<20))
			at.answer()
		}()
		goesOn(r)
	})
	t.Run("a websocket", func(t *testing.T) {
		t.Parallel()
		s := newSockets(t, time.Minute)
		s.open("/feed/1", "X-Fencing-Token: 1\n")
		s.reload(fenceLogin(cutDrain))
		if res := s.dial().send(put("/login")).receive(); res.StatusCode != 200 {
			t.Errorf("%s %s", res.Status, res.body)
		}
	})
}

// A request that need not have a token is never refused, and waits for nothing.
func TestTokenlessDoesNotWait(t *testing.T) {
	r := newRig(t, nil)
	before := r.dial().send(login)
	old := r.next()
	r.gate.Change(gate.Options{Unordered: true})
	r.reload(func(b *Rulebook, routes []route.Rule) []route.Rule {
		routes = fenceLogin(200*time.Millisecond)(b, routes)
		b.Rules[slices.IndexFunc(b.Rules, func(r Rule) bool { return r.Name == "login" })].Optional = true
		return routes
	})
	after := r.dial().send(login)
	r.next().answer()
	if res := after.receive(); res.StatusCode != 200 {
		t.Errorf("%s %s", res.Status, res.body)
	}
	old.answer()
	before.receive()
}

// A rule that only observes lets writes pass whose keys nobody can tell. What it
// enforces from a reload on waits for them.
func TestEnforcedByReloadWaitsForKeyless(t *testing.T) {
	observe := func(on bool) func(b *Rulebook, routes []route.Rule) []route.Rule {
		return func(b *Rulebook, routes []route.Rule) []route.Rule {
			b.Rules[slices.IndexFunc(b.Rules, func(r Rule) bool { return r.Name == "query" })].Observe = on
			return routes
		}
	}
	r := newRig(t, func(_ *Options, rules []Rule) { rules[2].Observe = true })
	before := r.dial().send("PUT /query HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 0\n\n") // no id
	old := r.next()
	r.reload(observe(false))
	after := r.dial().send(put("/query?id=1"))
	r.nothing("a write that was only looked on is in flight, on nobody knows which key")
	old.answer()
	before.receive()
	r.next().answer()
	if res := after.receive(); res.StatusCode != 200 {
		t.Errorf("%s %s", res.Status, res.body)
	}
}
