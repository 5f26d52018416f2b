package proxy

import (
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/upstream"
)

// reload puts the rig's rules into force anew, after change, and with the
// routes that it returns.
func (r *rig) reload(change func(b *Rulebook, routes []route.Rule) []route.Rule) {
	r.Helper()
	b := r.handler.books.current.Load().Rulebook
	b.Rules = slices.Clone(b.Rules)
	routes := change(&b, slices.Clone(r.routes))
	var err error
	if b.Table, err = route.New(routes, route.Options{Headers: []string{"X-Fencing-Token"}}); err != nil {
		r.Fatal(err)
	}
	r.handler.Switch(b)
}

// fenceLogin fences /login, which was not.
func fenceLogin(drain time.Duration) func(b *Rulebook, routes []route.Rule) []route.Rule {
	return func(b *Rulebook, routes []route.Rule) []route.Rule {
		i := slices.IndexFunc(routes, func(rt route.Rule) bool { return rt.Name == "login" })
		routes[i].NoKey, routes[i].Keys = false, []route.KeySpec{{Key: "login", Header: "X-Fencing-Token"}}
		b.Rules[i].Fenced, b.Rules[i].Headers, b.Rules[i].DrainTimeout = true, []string{"X-Fencing-Token"}, drain
		return routes
	}
}

// cutDrain is a drain_timeout of which the half, when older writes are cut, is
// short, and what is left of it then is longer than a busy machine stands still.
const cutDrain = 6 * time.Second

const login = "PUT /login HTTP/1.1\nHost: a\nContent-Length: 1\n\nx"

// A write that a reload has fenced waits for those that were sent unfenced
// before, and for no other.
func TestFencedByReloadWaits(t *testing.T) {
	r := newRig(t, nil)
	before := r.dial().send(login)
	old := r.next()
	r.reload(fenceLogin(patience))
	after := r.dial().send(put("/login"))
	r.nothing("an unfenced write of before the reload is in flight")
	other := r.dial().put("1", "")
	r.next().answer()
	if res := other.receive(); res.StatusCode != 200 {
		t.Errorf("a write that was fenced before: %s", res.Status)
	}
	old.answer()
	if res := before.receive(); res.StatusCode != 200 {
		t.Errorf("the unfenced write: %s", res.Status)
	}
	r.next().answer()
	if res := after.receive(); res.StatusCode != 200 || res.Header.Get("Fencing-Result") != "admitted" {
		t.Errorf("the fenced write: %s %v", res.Status, res.Header)
	}
}

// An unfenced write that was lost from sight counts for its settle time.
func TestFencedByReloadWaitsForSettle(t *testing.T) {
	r := newRig(t, nil)
	before := r.dial().send(login)
	old := r.next()
	start := time.Now()
	_ = before.Close() // an unfenced request is not followed to its end
	r.reload(fenceLogin(patience))
	after := r.dial().send(put("/login"))
	r.next().answer()
	if waited := time.Since(start); waited < testSettle {
		t.Errorf("it was sent after %v; settle is %v", waited, testSettle)
	}
	if res := after.receive(); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	old.answer()
}

// Who stalls in an unfenced upload, or does not read its answer, or keeps a
// websocket open, keeps no fenced write out for ever (L1, L2).
func TestFencedByReloadCuts(t *testing.T) {
	t.Run("an upload", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		before := r.dial().send("PUT /login HTTP/1.1\nHost: a\nContent-Length: 100000\n\nxxx")
		r.eventually("it is under way", func() bool { return r.handler.books.current.Load().writes.Load() == 2 })
		time.Sleep(50 * time.Millisecond)
		r.reload(fenceLogin(cutDrain))
		after := r.dial().send(put("/login"))
		p := before.problem(before.receive())
		if p.Forwarded == "yes" {
			t.Errorf("%+v", p)
		}
		at := r.next()
		for at.r.ContentLength == 100000 { // what came of the upload
			at.answer()
			at = r.next()
		}
		at.answer()
		if res := after.receive(); res.StatusCode != 200 {
			t.Errorf("%s %s", res.Status, res.body)
		}
	})
	t.Run("a websocket", func(t *testing.T) {
		t.Parallel()
		s := newSockets(t, time.Minute)
		open, _, _ := s.open("/chat", "")
		s.reload(func(b *Rulebook, routes []route.Rule) []route.Rule {
			i := slices.IndexFunc(routes, func(rt route.Rule) bool { return rt.Name == "chat" })
			routes[i].NoKey, routes[i].Keys = false, []route.KeySpec{{Key: "chat", Header: "X-Fencing-Token"}}
			b.Rules[i].Fenced, b.Rules[i].Headers, b.Rules[i].DrainTimeout = true, []string{"X-Fencing-Token"}, cutDrain
			return routes
		})
		after := s.dial().send(put("/chat"))
		if res := after.receive(); res.StatusCode != 200 {
			t.Errorf("%s %s", res.Status, res.body)
		}
		_ = open.SetReadDeadline(time.Now().Add(soon))
		for {
			if _, err := open.br.ReadByte(); err != nil {
				break
			}
		}
	})
}

// A rule of another name may make other keys of the same request: the gate
// knows the writes of before under those, so they are waited for as a whole.
func TestOtherRuleWaits(t *testing.T) {
	r := newRig(t, nil)
	before := r.dial().put("7", "x")
	old := r.next()
	r.reload(func(b *Rulebook, routes []route.Rule) []route.Rule {
		routes[0].Name, routes[0].Keys = "renamed", []route.KeySpec{{Key: "other:{id}", Header: "X-Fencing-Token"}}
		b.Rules[0].Name = "renamed"
		return routes
	})
	after := r.dial().put("8", "")
	r.nothing("the write of before is in flight under another key")
	old.answer()
	if res := before.receive(); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	r.next().answer()
	if res := after.receive(); res.StatusCode != 200 {
		t.Error(res.Status)
	}
}

// An operator's word that a write which was lost from sight is over ends the wait
// of what a reload has given another key, too, and that of a stop.
func TestOtherRuleWaitsForNoSettled(t *testing.T) {
	r := newRig(t, func(_ *Options, rules []Rule) { rules[0].Settle = time.Hour })
	before := r.dial().put("7", "x")
	old := r.next()
	old.w.WriteHeader(202) // proves nothing
	old.answer()
	if res := before.receive(); res.StatusCode != 202 {
		t.Fatal(res.Status)
	}
	r.reload(func(b *Rulebook, routes []route.Rule) []route.Rule {
		routes[0].Name, routes[0].Keys = "renamed", []route.KeySpec{{Key: "other:{id}", Header: "X-Fencing-Token"}}
		b.Rules[0].Name, b.FencesOtherwise = "renamed", true
		return routes
	})
	after := r.dial().put("8", "")
	r.nothing("the write of before is unsettled under another key")
	if !r.handler.HasOlder() {
		t.Error("a stop would not wait for it")
	}
	if done, err := r.gate.Settle("account:42"); err != nil || len(done.Unsettled) != 1 {
		t.Errorf("Settle: %+v, %v", done, err)
	}
	r.next().answer()
	if res := after.receive(); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	if err := r.handler.AwaitOlder(t.Context()); err != nil {
		t.Error(err)
	}
}

// Reads hold nothing up, and what is refused does not either.
func TestReloadWaitsForNoRead(t *testing.T) {
	r := newRig(t, nil)
	read := r.dial().send("GET /login HTTP/1.1\nHost: a\n\n")
	stream := r.next()
	r.dial().send("PUT /nowhere HTTP/1.1\nHost: a\nContent-Length: 0\n\n").receive()
	r.reload(fenceLogin(patience))
	after := r.dial().send(put("/login"))
	r.next().answer()
	if res := after.receive(); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	stream.answer()
	if res := read.receive(); res.StatusCode != 200 {
		t.Error(res.Status)
	}
}

// After several reloads no book and no connection of before is left.
func TestReloadsLeaveNothing(t *testing.T) {
	r := newRig(t, nil)
	for range 20 {
		c := r.dial().send(login)
		at := r.next()
		r.reload(func(b *Rulebook, routes []route.Rule) []route.Rule {
			b.Upstream = r.newUpstream(t)
			return routes
		})
		at.answer()
		if res := c.receive(); res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
	}
	r.eventually("the books of before are gone", func() bool { return len(*r.handler.books.former.Load()) == 0 })
}

func (r *rig) newUpstream(t *testing.T) *upstream.Upstream {
	t.Helper()
	up, err := upstream.New(r.upstreamOptions)
	if err != nil {
		t.Fatal(err)
	}
	return up
}
