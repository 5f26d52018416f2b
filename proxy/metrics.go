package proxy

import (
	"cmp"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Metrics are the figures of the data port. No label has a key or a token.
type Metrics struct {
	requests *prometheus.CounterVec
	raises   *prometheus.CounterVec
	collided prometheus.Counter
	raise    prometheus.Histogram
	drain    prometheus.Histogram
	upstream prometheus.Histogram
}

// seconds are the buckets of every duration: 100 µs to 100 s.
var seconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 100}

// NewMetrics registers the figures of the data port, and those of g, with
// reg.
func NewMetrics(reg prometheus.Registerer, g *gate.Gate) *Metrics {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds})
	}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fenceproxy_requests_total",
			Help: "Requests by rule and by what became of them: passed, admitted, admitted-without-token, would-wait, would-reject-NAME, client-left, bad-body, failed, or the NAME of the problem."}, []string{"rule", "decision"}),
		raises: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fenceproxy_raises_total",
			Help: "Writes that recorded a higher token."}, []string{"rule"}),
		collided: prometheus.NewCounter(prometheus.CounterOpts{Name: "fenceproxy_token_collisions_total",
			Help: "Writes with a token that another holder uses; a source of tokens that hands out one of them twice."}),
		raise:    histogram("fenceproxy_raise_seconds", "How long writes waited for the raises that they made."),
		drain:    histogram("fenceproxy_drain_wait_seconds", "How long writes waited in the gate beyond their own raises: for older writes, and for the raises of others."),
		upstream: histogram("fenceproxy_upstream_seconds", "From the sending of a request to the end of its answer."),
	}
	reg.MustRegister(m.requests, m.raises, m.collided, m.raise, m.drain, m.upstream)
	for name, gauge := range map[string]struct {
		help string
		of   func(gate.Counts) int64
	}{
		"fenceproxy_writes_in_flight": {"Writes that were sent and are not over.", func(c gate.Counts) int64 { return c.InFlight }},
		"fenceproxy_writes_unsettled": {"Writes that were lost from sight and may still be applied.", func(c gate.Counts) int64 { return c.Unsettled }},
		"fenceproxy_waiting":          {"Writes that wait for the disk or for older writes.", func(c gate.Counts) int64 { return c.Waiting }},
		"fenceproxy_keys_cached":      {"Keys of which a copy of the mark is in memory.", func(c gate.Counts) int64 { return int64(c.Cached) }},
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: gauge.help},
			func() float64 { return float64(gauge.of(g.Counts())) }))
	}
	return m
}

// count notes what became of an exchange.
func (m *Metrics) count(x *exchange) {
	decision := x.decision
	if decision == "" {
		decision = "failed" // the handler panicked
	}
	m.requests.WithLabelValues(x.ruleName(), decision).Inc()
	if cause := cmp.Or(x.cause, x.seen.cause); cause != nil && isCollision(cause) {
		m.collided.Inc()
	}
	m.answered(x)
	w := x.ticket.Waited()
	if w.Total == 0 {
		return
	}
	if w.Raised {
		m.raises.WithLabelValues(x.ruleName()).Inc()
		m.raise.Observe(w.Raise.Seconds())
	}
	m.drain.Observe((w.Total - w.Raise).Seconds())
}

func isCollision(err error) bool {
	var collision *tokenstore.CollisionError
	return errors.As(err, &collision)
}

// answered ends the upstream's turn: at the answer's end, or at a 101, since a
// websocket may be open for days. Only the first call counts.
func (m *Metrics) answered(x *exchange) {
	if !x.sent.IsZero() {
		x.trace.answered()
		m.upstream.Observe(time.Since(x.sent).Seconds())
		x.sent = time.Time{}
	}
}
