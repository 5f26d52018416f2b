package main

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy/admin"
	"github.com/fenceproxy/fenceproxy/proxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/listen"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

// operator is what a configuration says of the admin listener, with its files
// read.
type operator struct {
	token        *guard.Token         // nil for none
	certificates *listen.Certificates // nil for plain HTTP
}

// planAdmin reads the files of the admin listener.
func planAdmin(cfg *config.Config, report *config.Report) (o operator) {
	if cfg.Admin.Address == "" {
		return o
	}
	o.certificates = planTLS(cfg, report, "admin.tls", cfg.Admin.TLS)
	o.token = planToken(cfg, report, "admin.token_file", cfg.Admin.TokenFile)
	return o
}

// planToken reads what a listener's callers have to know; nil for nothing.
func planToken(cfg *config.Config, report *config.Report, setting, path string) *guard.Token {
	if path == "" || report.Has(setting) {
		return nil
	}
	token, err := guard.ReadToken(path)
	if err != nil {
		report.Add(cfg.Errorf(setting, "%v", err))
		return nil
	}
	if token.Exposed() {
		report.Warn(cfg.Errorf(setting, "%s can be read by every user of this machine, who then passes for its holder (chmod o-r)", path))
	}
	return token
}

// listenAdmin opens the admin listener; an empty address is none.
func (s *service) listenAdmin(o operator) (net.Listener, error) {
	if s.cfg.Admin.Address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", s.cfg.Admin.Address)
	if err != nil {
		return nil, notListening("admin.address", err)
	}
	if o.token != nil {
		o.token.Tell(s.log)
	}
	if o.certificates != nil {
		l = o.certificates.Over(l, "admin.tls", s.log)
	}
	return l, nil
}

// openAudit opens the file of audit lines, before a change could be made.
func openAudit(path string) (*admin.Audit, error) {
	if path == "" {
		return admin.NewAudit(sureLines{standardError}), nil
	}
	return admin.OpenAudit(path)
}

// newAdmin makes the admin server.
func (s *service) newAdmin(p planned, gatherer prometheus.Gatherer) *http.Server {
	// No time limit for answers: an export may be long, and a raise waits.
	log, _ := zap.NewStdLogAt(s.log, zap.DebugLevel) // fails for a level that is none
	s.operate(p, gatherer)
	return &http.Server{Handler: http.HandlerFunc(s.serveOperator), ErrorLog: log, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
}

// operate puts the admin API for the rules of p into force.
func (s *service) operate(p planned, gatherer prometheus.Gatherer) {
	if s.cfg.Admin.Address == "" {
		return
	}
	handler := s.adminHandler(p, gatherer)
	s.operator.Store(&handler)
}

func (s *service) serveOperator(w http.ResponseWriter, r *http.Request) {
	(*s.operator.Load()).ServeHTTP(w, r)
}

func (s *service) adminHandler(p planned, gatherer prometheus.Gatherer) http.Handler {
	rules := make([]admin.Rule, len(p.rules))
	for i := range p.rules {
		r := &p.rules[i]
		rules[i] = admin.Rule{Name: r.Name, Fenced: r.Fenced, Format: r.Format, Epoch: r.Epoch, DrainTimeout: r.DrainTimeout, MaxToken: r.MaxToken, HasMaxToken: r.HasMaxToken, Suspect: r.Suspect}
	}
	return admin.NewHandler(admin.Options{
		Gate: s.gate, DrainOlder: s.handler.DrainOlder, Store: s.store.Store, Metrics: gatherer, Ready: s.ready, Notice: s.reload.notice,
		Rules: rules, Owners: p.table.Owners, Lease: s.leases.look(), Audit: s.audit, Log: s.log, Token: p.operator.token, Hosts: adminHosts(s.cfg.Admin),
		Header: func() dump.Header {
			return dump.Header{Settle: s.store.settle, Rules: p.fingerprints, Epochs: p.epochs}
		},
	})
}

// adminHosts are the names by which the admin listener may be called: those of
// the configuration, and that of its address where it is one.
func adminHosts(a config.Admin) []string {
	host, _, err := net.SplitHostPort(a.Address)
	if ip, perr := netip.ParseAddr(host); err != nil || host == "" || perr == nil && ip.IsUnspecified() {
		return a.Hosts
	}
	return append(slices.Clone(a.Hosts), host)
}
