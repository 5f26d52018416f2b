package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// figure is a metric's value, of a histogram how often it was observed. It is 0
// where there is none with these labels, in the order of their names.
func (r *rig) figure(name string, labels ...string) float64 {
	r.Helper()
	families, err := r.figures.Gather()
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			same := len(m.GetLabel()) == len(labels)
			for i, l := range m.GetLabel() {
				same = same && l.GetValue() == labels[i]
			}
			if same {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

// Every figure counts what its name says, and nothing else.
func TestFigures(t *testing.T) {
	r := newRig(t, func(_ *Options, rules []Rule) {
		rules[0].DrainTimeout, rules[0].Settle = time.Second, time.Hour
	})
	want := func(value float64, name string, labels ...string) {
		t.Helper()
		r.eventually(name, func() bool { return r.figure(name, labels...) == value })
	}
	old := r.dial().put("7", "")
	at := r.next()
	want(1, "fenceproxy_writes_in_flight")
	want(1, "fenceproxy_keys_cached")
	r.dial().put("8", "").receive() // a raise, and a wait in vain
	want(1, "fenceproxy_requests_total", "drain-timeout", "accounts")
	r.dial().put("6", "").receive()
	want(1, "fenceproxy_requests_total", "stale-token", "accounts")
	at.answer()
	old.receive()
	want(1, "fenceproxy_requests_total", "admitted", "accounts")
	want(0, "fenceproxy_writes_in_flight")
	want(2, "fenceproxy_raises_total", "accounts")
	want(2, "fenceproxy_raise_seconds")
	want(2, "fenceproxy_drain_wait_seconds")
	want(1, "fenceproxy_upstream_seconds")

	for _, holder := range []string{"A", "B"} {
		c := r.dial().send("PUT /held HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nX-Holder: " + holder + "\nContent-Length: 0\n\n")
		if holder == "A" {
			r.next().answer()
		}
		c.receive()
	}
	want(1, "fenceproxy_token_collisions_total")
	want(1, "fenceproxy_requests_total", "token-collision", "held")
	want(2, "fenceproxy_upstream_seconds")

	c := r.dial().send("GET /nobody HTTP/1.1\nHost: a\n\n")
	r.next().answer()
	c.receive()
	want(1, "fenceproxy_requests_total", "passed", "none")
	want(3, "fenceproxy_upstream_seconds")
	want(1, "fenceproxy_raises_total", "held")

	holds := r.dial().send(put("/reads"))
	at = r.next()
	leaves := r.dial().send(strings.Replace(put("/reads"), ": 7", ": 8", 1))
	want(1, "fenceproxy_waiting")
	_ = leaves.Close()
	want(1, "fenceproxy_requests_total", "client-left", "reads")
	want(0, "fenceproxy_waiting")
	at.answer()
	holds.receive()
	want(1, "fenceproxy_requests_total", "admitted", "reads")

	c = r.dial().put("9", "")
	at = r.next()
	at.w.WriteHeader(http.StatusAccepted) // proves nothing
	at.answer()
	c.receive()
	want(2, "fenceproxy_requests_total", "admitted", "accounts")
	want(1, "fenceproxy_writes_unsettled")
	if _, err := r.gate.Settle("account:42"); err != nil {
		t.Fatal(err)
	}
	want(0, "fenceproxy_writes_unsettled")
}
