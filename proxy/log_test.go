package proxy

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Each write that was refused, waited, was overtaken or is unsettled has one
// line that says all of it.
func TestLines(t *testing.T) {
	const brief = time.Second
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

	r.raised("bounded", 9)
	r.dial().send(strings.Replace(put("/bounded"), ": 7", ": 20", 1)).receive()
	want("implausible", map[string]any{"decision": "token-implausible", "highest": "9", "phase": "check"})
	if _, err := r.store.Acquire(r.Context(), []tokenstore.Mark{{Key: "held", Token: tokenstore.Token{Major: 7}, Holder: "A", Clear: true}}); err != nil {
		t.Fatal(err)
	}
	r.dial().send("PUT /held HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nX-Holder: B\nContent-Length: 0\n\n").receive()
	want("collided", map[string]any{"decision": "token-collision", "highest": "7", "phase": "check"})

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

// With the access log every request has a line. One that has nothing else to say
// is told from the rest by its word, by which a flood of them is thinned out.
func TestAccessLines(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	r := newRig(t, func(o *Options, _ []Rule) { o.Log, o.AccessLog = zap.New(core), true })
	r.dial().put("7", "")
	r.next().answer()
	r.eventually("it is logged", func() bool { return logs.FilterMessage("access").Len() == 1 })
	r.dial().send("GET /nobody HTTP/1.1\nHost: a\n\n")
	r.next().answer()
	r.eventually("it is logged", func() bool { return logs.FilterMessage("access").Len() == 2 })
	r.dial().put("6", "").receive()
	r.eventually("it is logged", func() bool { return logs.FilterMessage("request").Len() == 1 })
	if n := logs.Len(); n != 3 {
		t.Errorf("%d lines: %v", n, logs.All())
	}
}
