package main

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy"
)

func (s *service) newHandler(p planned, reg prometheus.Registerer, tracer trace.Tracer) *proxy.Handler {
	return proxy.NewHandler(proxy.Options{
		Rulebook: s.rulebook(s.cfg, p), Gate: s.gate, BodyTimeout: s.cfg.Listen.HeaderTimeout, ReadTimeout: s.cfg.Listen.IdleTimeout,
		Metrics: proxy.NewMetrics(reg, s.gate), Log: s.log, Tracer: tracer,
	})
}

// rulebook is what a reload replaces of the handler.
func (s *service) rulebook(cfg *config.Config, p planned) proxy.Rulebook {
	for i := range p.rules {
		p.rules[i].Suspect = slices.Contains(s.store.changed, p.rules[i].Name)
	}
	return rulebook(cfg, p)
}

func rulebook(cfg *config.Config, p planned) proxy.Rulebook {
	return proxy.Rulebook{
		Table: p.table, Rules: p.rules, Upstream: p.upstream,
		ForwardUnmatched: cfg.UnmatchedWrites == config.Forward, ResponseTimeout: cfg.Upstream.ResponseTimeout, Settle: cfg.Upstream.Settle,
		MaxBodyBuffer: int64(cfg.Limits.MaxBodyBuffer), MaxBuffered: int64(cfg.Limits.MaxBuffered), AccessLog: cfg.Log.Access,
	}
}
