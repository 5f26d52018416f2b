package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// storeFigures are the metrics of a shared store.
type storeFigures struct {
	ops   *prometheus.HistogramVec
	waits prometheus.Histogram
	reg   prometheus.Registerer
}

// newStoreFigures registers nothing as long as no shared store is opened.
func newStoreFigures(reg prometheus.Registerer) *storeFigures {
	buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	return &storeFigures{reg: reg,
		ops: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "fenceproxy_store_seconds",
			Help: "How long calls of the shared store took, by what they do.", Buckets: buckets}, []string{"op"}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "fenceproxy_remote_waits_seconds",
			Help: "How long writes waited for older ones of other proxies.", Buckets: buckets}),
	}
}

// observer takes the figures of a session.
func (f *storeFigures) observer() session.Observer {
	return session.Observer{
		Op: func(op session.Op, took time.Duration, _ error) {
			f.ops.WithLabelValues(string(op)).Observe(took.Seconds())
		},
		RemoteWait: func(took time.Duration) { f.waits.Observe(took.Seconds()) },
	}
}

// follow registers the figures of s.
func (f *storeFigures) follow(s *session.Store) {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	f.reg.MustRegister(f.ops, f.waits,
		gauge("fenceproxy_session_remaining_seconds", "How long this proxy may go on without hearing from the shared store.", func() float64 { return s.Remaining().Seconds() }),
		gauge("fenceproxy_grants", "Tokens on keys that this proxy may write with, without asking the shared store.", func() float64 { return float64(s.Grants()) }))
}
