package main

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/upstream"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// keepIdle is how long a connection to the upstream is kept for a later
// request: shorter than the commonest servers keep theirs (gunicorn 2 s, Node,
// Apache and uvicorn 5 s), since a write that meets a server just closing its
// end becomes unsettled.
const keepIdle = time.Second

// planned is a configuration made into the parts that need no listener and no
// store.
type planned struct {
	table        *route.Table
	rules        []proxy.Rule
	upstream     *upstream.Upstream
	fingerprints tokenstore.Rules
}

// plan provisions a configuration as far as check does, and adds what is
// wrong to the report. Its result is fit for use where the report has no
// errors.
func plan(cfg *config.Config, report *config.Report) planned {
	p := planned{fingerprints: tokenstore.Rules{}}
	var routes []route.Rule
	for i := range cfg.Rules {
		r, policy := &cfg.Rules[i], cfg.Policy(&cfg.Rules[i])
		fenced := policy.Token != config.TokenNone
		rr := route.Rule{Name: r.Name, Paths: r.Paths, Methods: r.Methods, Key: r.Key,
			NoKey: !fenced, Headers: []string{policy.Header}, Format: tokenstore.Decimal}
		if !fenced {
			rr.Key = "" // of no use there; config has warned of it
		}
		routes = append(routes, rr)
		if fenced {
			p.fingerprints[r.Name] = route.Fingerprint(rr)
		}
		p.rules = append(p.rules, proxy.Rule{
			Name: r.Name, Header: http.CanonicalHeaderKey(policy.Header), Format: tokenstore.Decimal, Fenced: fenced,
			DrainTimeout: policy.DrainTimeout, ResponseTimeout: policy.ResponseTimeout, Settle: policy.Settle,
			DiscloseHighest: policy.DiscloseHighest,
		})
	}
	p.table = planRoutes(cfg, report, routes)
	p.upstream = planUpstream(cfg, report)
	return p
}

func planRoutes(cfg *config.Config, report *config.Report, routes []route.Rule) *route.Table {
	if report.Has("rules") || report.Has("fencing") {
		return nil // what the table would say of them may be wrong
	}
	table, err := route.New(routes, route.Options{Headers: []string{cfg.Fencing.Header}})
	var errs route.Errors
	switch {
	case err == nil:
	case errors.As(err, &errs):
		for _, e := range errs {
			report.Add(cfg.Errorf(settingOf(e), "%s", e.Msg))
		}
	default:
		report.Add(cfg.Errorf("rules", "%v", err))
	}
	return table
}

func planUpstream(cfg *config.Config, report *config.Report) *upstream.Upstream {
	if report.Has("upstream") {
		return nil
	}
	u, err := url.Parse(cfg.Upstream.URL)
	if err == nil {
		var up *upstream.Upstream
		up, err = upstream.New(upstream.Options{
			URL: u, ConnectTimeout: cfg.Upstream.ConnectTimeout, PreserveHost: cfg.Upstream.PreserveHost,
			UnsettledStatuses: cfg.Upstream.UnsettledStatuses, MaxHeader: int(cfg.Limits.MaxHeader),
			IdleTimeout: keepIdle,
		})
		if err == nil {
			return up
		}
	}
	report.Add(cfg.Errorf("upstream.url", "%v", err))
	return nil
}
