package proxy

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Those who wait for writes of before a reload wait as others do: no more of
// them than may.
func TestWaitersOnOlderRulesCount(t *testing.T) {
	r := newRig(t, nil)
	before := r.dial().send(login)
	old := r.next()
	r.reload(fenceLogin(20 * time.Second))
	r.gate.Change(gate.Options{MaxWaiting: 1})
	after := r.dial().send(put("/login"))
	r.eventually("it waits", func() bool { return r.gate.Counts().Waiting == 1 })
	more := r.dial().send(put("/login"))
	if p := more.problem(more.receive()); p.Name() != wire.Overloaded || p.Forwarded != wire.ForwardedNo {
		t.Errorf("one too many: %+v", p)
	}
	old.answer()
	before.receive()
	r.next().answer()
	if res := after.receive(); res.StatusCode != 200 {
		t.Errorf("%s %s", res.Status, res.body)
	}
	if n := r.gate.Counts().Waiting; n != 0 {
		t.Errorf("%d wait, and all is over", n)
	}
}

// drain_timeout is one, for what the gate does not know and for what it does.
func TestOneDrainTimeout(t *testing.T) {
	t.Parallel()
	const drain = 8 * time.Second
	r := newRig(t, nil)
	before := r.dial().send(login)
	old := r.next()
	holds := new(gate.Ticket)
	if err := r.gate.Enter(t.Context(), gate.Request{Claims: []gate.Claim{{Key: "login", Token: tokenstore.Token{}}}, DrainTimeout: time.Second, Settle: testSettle}, holds); err != nil {
		t.Fatal(err)
	}
	r.reload(fenceLogin(drain))
	start := time.Now()
	after := r.dial().send(put("/login"))
	time.Sleep(drain / 4) // before anything is cut
	old.answer()
	before.receive()
	first := time.Since(start)
	if p := after.problem(after.receive()); p.Name() != wire.DrainTimeout {
		t.Errorf("%+v", p)
	}
	if took := time.Since(start); took < drain || took > first+drain {
		t.Errorf("it waited for %v, and drain_timeout is %v", took, drain)
	}
	holds.Settle()
}

// Who raises a token without a write waits for the same.
func TestDrainOlder(t *testing.T) {
	r := newRig(t, func(_ *Options, rules []Rule) { rules[2].Observe = true }) // query
	r.dial().send(login)
	old := r.next()
	drain := func(ctx context.Context, rule string, patience time.Duration) error {
		return r.handler.DrainOlder(ctx, rule, "k", patience)
	}
	timeout := (*gate.DrainTimeoutError)(nil)
	if err := drain(t.Context(), "login", 0); err != nil {
		t.Errorf("without a reload: %v", err)
	}
	r.reload(fenceLogin(time.Minute))
	if err := drain(t.Context(), "accounts", 0); err != nil {
		t.Errorf("a rule that was fenced before: %v", err)
	}
	if err := drain(t.Context(), "query", 0); err != nil {
		t.Errorf("a rule that observes: %v", err)
	}
	r.reload(func(b *Rulebook, routes []route.Rule) []route.Rule {
		b.Rules[2].Observe = false
		return routes
	})
	if err := drain(t.Context(), "query", 0); !errors.As(err, &timeout) {
		t.Errorf("a rule that observed, with writes in flight whose keys nobody knows: %v", err)
	}
	r.reload(func(b *Rulebook, routes []route.Rule) []route.Rule {
		b.FencesOtherwise = true
		return routes
	})
	if err := drain(t.Context(), "accounts", 0); !errors.As(err, &timeout) {
		t.Errorf("a rule that may have other writes than before: %v", err)
	}
	if err := drain(t.Context(), "login", 0); !errors.As(err, &timeout) || timeout.Key != "k" {
		t.Errorf("with an unfenced write in flight: %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := drain(gone, "login", time.Minute); !errors.Is(err, gate.ErrLeft) {
		t.Errorf("a caller who has left: %v", err)
	}
	drained := make(chan error, 1)
	go func() { drained <- drain(t.Context(), "login", time.Minute) }()
	r.eventually("it waits", func() bool { return r.gate.Counts().Waiting == 1 })
	old.answer()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}
