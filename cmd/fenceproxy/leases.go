package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy"
	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/lease"
	"github.com/fenceproxy/fenceproxy/proxy/listen"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// plannedLeases are the files that leases need.
type plannedLeases struct {
	token        *guard.Token         // nil for none
	certificates *listen.Certificates // nil for plain HTTP
}

func planLeases(cfg *config.Config, report *config.Report) (p plannedLeases) {
	if !cfg.Leases.On() {
		return p
	}
	p.certificates = planTLS(cfg, report, "leases.tls", cfg.Leases.TLS)
	p.token = planToken(cfg, report, "leases.token_file", cfg.Leases.TokenFile)
	return p
}

// leases are the issuer and its API.
type leases struct {
	issuer *lease.Issuer
	server *http.Server
	owners atomic.Pointer[owners] // of the configuration in force
}

// owners finds the rules that can make a key.
type owners func(tokenstore.Key) []lease.Owner

// hasLeases reports whether leases are held in the store of before they were
// switched off. Somebody has to see that they run out, or their keys could not be
// forgotten for ever after.
func (s *service) hasLeases() (some bool) {
	store, ok := s.store.Store.(tokenstore.Leaser)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	_ = store.Leases(ctx, func(tokenstore.Key, tokenstore.Lease) bool { some = true; return false }) // they are off: what cannot be read stops nobody
	return some
}

// newLeases reads the leases that are in the store.
func (s *service) newLeases(p planned, reg prometheus.Registerer) (*leases, error) {
	store, ok := s.store.Store.(tokenstore.Leaser)
	if !ok {
		return nil, &exitError{exitUsage, errors.New("leases.address: this kind of store keeps no leases: take another one, or leave leases out")}
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	l := &leases{}
	l.use(s, p)() // the handler has them
	var err error
	l.issuer, err = lease.New(ctx, lease.Options{
		Store: store, Clock: session.Boottime, Owners: func(key tokenstore.Key) []lease.Owner { return (*l.owners.Load())(key) },
		DefaultTTL: s.cfg.Leases.DefaultTTL, MaxTTL: s.cfg.Leases.MaxTTL, MaxHeld: s.cfg.Leases.MaxHeld,
		MaxWaiting: s.cfg.Limits.MaxWaiting, MaxWaitingPerKey: s.cfg.Limits.MaxWaitingPerKey,
		Metrics: lease.NewMetrics(reg), Audit: s.auditLease, Log: s.log,
	})
	if err != nil {
		return nil, notOpened("leases", err)
	}
	return l, nil
}

// use grants by the rules of p from here on. A lease that is held stays held.
// One that is granted is not told before inForce is called: only once the handler
// has the rules, too, it is known which writes they do not fence.
func (l *leases) use(s *service, p planned) (inForce func()) {
	if l == nil {
		return func() {}
	}
	forced := make(chan struct{})
	find := s.owners(p, forced)
	l.owners.Store(&find)
	return func() { close(forced) }
}

func (s *service) owners(p planned, forced <-chan struct{}) owners {
	all, suspects := make([]lease.Owner, len(p.rules)), proxy.Suspects(p.table, p.rules)
	for i := range p.rules {
		r := &p.rules[i]
		all[i] = lease.Owner{Rule: r.Name, Format: r.Format, Epoch: r.Epoch, MaxToken: r.MaxToken, Fence: s.fence(r, suspects, forced)}
	}
	return func(key tokenstore.Key) (some []lease.Owner) {
		for _, i := range p.table.Owners(key) {
			some = append(some, all[i])
		}
		return some
	}
}

// fence raises a token and drains, and holds nothing behind it. Writes that came
// in before a reload has fenced them are older, too.
func (s *service) fence(r *proxy.Rule, suspects func(tokenstore.Key) bool, forced <-chan struct{}) func(context.Context, tokenstore.Key, tokenstore.Token) error {
	return func(ctx context.Context, key tokenstore.Key, token tokenstore.Token) error {
		<-forced
		start := time.Now()
		err := s.gate.Enter(ctx, gate.Request{
			Claims:       []gate.Claim{{Key: key, Token: token, Suspect: r.Suspect || suspects(key)}},
			DrainTimeout: r.DrainTimeout, Settle: r.Settle, Since: start, Read: true,
		}, new(gate.Ticket))
		if err != nil {
			return err
		}
		return s.handler.DrainOlder(ctx, r.Name, key, r.DrainTimeout-time.Since(start))
	}
}

// serve begins to grant.
func (l *leases) serve(s *service, p planned, at net.Listener) {
	if p.leases.token != nil {
		p.leases.token.Tell(s.log)
	}
	if p.leases.certificates != nil {
		at = p.leases.certificates.Over(at, "leases.tls", s.log)
	}
	errorLog, _ := zap.NewStdLogAt(s.log.Named("leases"), zap.DebugLevel) // it knows the level
	patience := s.cfg.Listen.HeaderTimeout
	l.server = &http.Server{
		Handler:           lease.NewHandler(lease.HandlerOptions{Issuer: l.issuer, Token: p.leases.token, Loopback: s.cfg.Leases.Loopback(), BodyTimeout: patience, Log: s.log}),
		ReadHeaderTimeout: patience, IdleTimeout: s.cfg.Listen.IdleTimeout, MaxHeaderBytes: int(s.cfg.Limits.MaxHeader),
		ErrorLog: errorLog,
		// Whoever waits on HTTP/2 and is gone without a word is found out.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 3 * patience, PingTimeout: patience, WriteByteTimeout: 3 * patience},
	}
	s.serve(l.server, at, "leases.address")
}

// stop grants nothing any more. Leases are renewed and released until the end:
// their holders' writes may be the ones that are still in flight.
func (l *leases) stop() {
	if l != nil {
		l.issuer.Stop()
	}
}

// close ends it all before the store is closed. The leases stay in there.
func (l *leases) close() {
	if l == nil {
		return
	}
	if l.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), farewell)
		defer cancel()
		if l.server.Shutdown(ctx) != nil { // what is being answered still is
			_ = l.server.Close()
		}
	}
	l.issuer.Close()
}
