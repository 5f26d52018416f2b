package proxy

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fenceproxy/fenceproxy/proxy/route"
)

// Each write that was refused, waited, was overtaken or is unsettled has one
// line that says all of it.
func TestLines(t *testing.T) {
	const brief = 300 * time.Millisecond
	core, logs := observer.New(zapcore.InfoLevel)
	r := newRig(t, func(o *Options, rules []Rule) {
		o.Log = zap.New(core)
		rules[0].DrainTimeout = brief
	})
	line := func(what string) map[string]any {
		t.Helper()
		var all []observer.LoggedEntry
		r.eventually(what+" is logged", func() bool { all = logs.TakeAll(); return len(all) > 0 })
		if len(all) != 1 {
			t.Fatalf("%s: %d lines: %v", what, len(all), all)
		}
		return all[0].ContextMap()
	}
	want := func(what string, fields map[string]any) {
		t.Helper()
		got := line(what)
		for _, name := range []string{"method", "target", "peer", "rule", "key", "token", "duration"} {
			if got[name] == nil || got[name] == "" {
				t.Errorf("%s: no %s in %v", what, name, got)
			}
		}
		for name, value := range fields {
			if got[name] != value {
				t.Errorf("%s: %s is %v, want %v", what, name, got[name], value)
			}
		}
	}
	timeouts := func(drain, response time.Duration) {
		r.reload(func(b *Rulebook, routes []route.Rule) []route.Rule {
			b.Rules[0].DrainTimeout, b.Rules[0].ResponseTimeout = drain, response
			return routes
		})
	}
	r.raised("account:42", 7)
	r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Request-Id: id-1\nX-Fencing-Token: 6\nContent-Length: 0\n\n").receive()
	want("refused", map[string]any{"decision": "stale-token", "highest": "7", "phase": "check", "request_id": "id-1"})

	first := r.dial().put("8", "")
	old := r.next()
	r.dial().put("9", "").receive()
	want("timed out", map[string]any{"decision": "drain-timeout", "phase": "wait"})
	timeouts(patience, patience)
	again := r.dial().put("9", "")
	r.eventually("it waits", func() bool { return r.gate.Counts().Waiting == 1 })
	newer := r.dial().put("10", "")
	again.receive()
	want("overtaken", map[string]any{"decision": "stale-token", "highest": "10", "phase": "wait"})
	r.nothing("the newer one waits")
	old.answer()
	first.receive()
	r.next().answer()
	if res := newer.receive(); res.StatusCode != 200 {
		t.Fatal(res.Status)
	}
	want("waiting", map[string]any{"decision": "admitted"})

	timeouts(patience, brief)
	lost := r.dial().put("11", "")
	at := r.next()
	lost.receive()
	want("unsettled", map[string]any{"decision": "outcome-unknown", "unsettled": "timeout", "phase": "upstream"})
	at.answer()
	timeouts(patience, patience)
	last := r.dial().put("11", "")
	r.next().answer()
	last.receive()
	if n := logs.Len(); n != 0 {
		t.Errorf("an admitted write that waited for nothing has a line: %v", logs.All())
	}
}
