package lease

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of an issuer. None has a key, a token or a holder as a label.
type Metrics struct {
	reg    prometheus.Registerer // nil registers nothing
	grants prometheus.Counter
	lost   prometheus.Counter
	wait   prometheus.Histogram
}

// NewMetrics registers them; those that are read from the issuer once it is
// made.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := newMetrics()
	m.reg = reg
	reg.MustRegister(m.grants, m.lost, m.wait)
	return m
}

func newMetrics() *Metrics {
	return &Metrics{
		grants: prometheus.NewCounter(prometheus.CounterOpts{Name: "fenceproxy_lease_grants_total", Help: "Leases that were granted."}),
		lost:   prometheus.NewCounter(prometheus.CounterOpts{Name: "fenceproxy_leases_lost_total", Help: "Leases that ran out, rather than being released."}),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "fenceproxy_lease_wait_seconds",
			Help:    "How long those who got a lease waited for another holder. The drain behind the grant is not in it.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}}),
	}
}

// observe registers what is read from i.
func (m *Metrics) observe(i *Issuer) {
	if m.reg == nil {
		return
	}
	m.reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "fenceproxy_leases_held", Help: "Leases that are held, as far as this proxy knows."},
			func() float64 { return float64(i.Counts().Held) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "fenceproxy_lease_waiting", Help: "Clients that ask or wait for a lease."},
			func() float64 { return float64(i.Counts().Waiting) }))
}

func (m *Metrics) waited(d time.Duration) { m.wait.Observe(d.Seconds()) }

func (m *Metrics) count(w What) {
	switch w {
	case EventGranted:
		m.grants.Inc()
	case EventLost:
		m.lost.Inc()
	}
}
