package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// newRegistry has the figures of Go itself.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// register adds the figures of the store.
func (s *service) register(reg *prometheus.Registry) {
	if s.store.keys != nil {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "fenceproxy_keys_stored", Help: "Keys that have a record in the store."},
			func() float64 { return float64(s.store.keys()) }))
	}
	reg.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "fenceproxy_log_lines_dropped_total", Help: "Lines of the log that were dropped, since nobody read them."},
			func() float64 { return float64(standardError.lost()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "fenceproxy_store_up", Help: "1 when the store answers, else 0."},
			func() float64 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				if s.storeAnswers(ctx) != nil {
					return 0
				}
				return 1
			}))
}

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
