package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy"
	"github.com/fenceproxy/fenceproxy/proxy/listen"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/upstream"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd"
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
	routes       []route.Rule
	rules        []proxy.Rule
	upstream     *upstream.Upstream
	certificates *listen.Certificates // nil for plain HTTP
	fingerprints tokenstore.Rules
	epochs       map[string]uint64
	etcd         etcd.Options // of a configuration with store.etcd
	leases       plannedLeases
	operator     operator
}

// plan provisions a configuration as far as check does, and adds what is
// wrong to the report. Its result is fit for use where the report has no
// errors.
func plan(cfg *config.Config, report *config.Report) planned {
	p := planned{fingerprints: tokenstore.Rules{}, epochs: map[string]uint64{}}
	for i := range cfg.Rules {
		r, policy := &cfg.Rules[i], cfg.Policy(&cfg.Rules[i])
		rr := planRoute(cfg, r, policy)
		p.routes = append(p.routes, rr)
		p.rules = append(p.rules, planRule(cfg, report, i, policy))
		if !rr.NoKey {
			p.fingerprints[r.Name] = route.Fingerprint(rr)
			p.epochs[r.Name] = policy.Epoch
		}
	}
	planComparable(cfg, report)
	p.table = planRoutes(cfg, report, p.routes)
	p.upstream = planUpstream(cfg, report)
	p.etcd = planEtcd(cfg, report)
	p.certificates = planTLS(cfg, report, "listen.tls", cfg.Listen.TLS)
	p.leases = planLeases(cfg, report)
	p.operator = planAdmin(cfg, report)
	return p
}

// unordered reports whether writes may pass a rule's fence of which no record
// tells.
func (p *planned) unordered() bool {
	return slices.ContainsFunc(p.rules, func(r proxy.Rule) bool { return r.Optional || r.Observe })
}

// formats are the formats by their names in the configuration.
var formats = map[config.Format]tokenstore.Format{
	config.Decimal: tokenstore.Decimal, config.Hex: tokenstore.Hex, config.Composite: tokenstore.Composite,
}

// planRoute is how requests of a rule are recognised.
func planRoute(cfg *config.Config, r *config.Rule, policy config.Policy) route.Rule {
	rr := route.Rule{Name: r.Name, Paths: r.Paths, Methods: r.Methods, NoKey: policy.Token == config.TokenNone,
		Headers: []string{policy.Header}, Format: formats[policy.Format], Policy: pathPolicy(policy.PathPolicy)}
	rr.WebSocket = r.WebSocket
	rr.FenceReads = !rr.NoKey && policy.Reads == config.ReadsFence
	if policy.HolderHeader != "" {
		rr.Headers = append(rr.Headers, policy.HolderHeader)
	}
	for _, k := range cfg.Keys(r) { // none where no token is asked for; config has warned of those that are there
		rr.Keys = append(rr.Keys, route.KeySpec{Key: k.Template, Header: k.Header})
	}
	return rr
}

// planRule is what becomes of the requests of rule i.
func planRule(cfg *config.Config, report *config.Report, i int, policy config.Policy) proxy.Rule {
	r := proxy.Rule{
		Name: cfg.Rules[i].Name, Format: formats[policy.Format], Epoch: policy.Epoch, Fenced: policy.Token != config.TokenNone,
		DrainTimeout: policy.DrainTimeout, ResponseTimeout: policy.ResponseTimeout,
		Settle: policy.Settle, DiscloseHighest: policy.DiscloseHighest,
	}
	r.Optional = r.Fenced && policy.Token == config.TokenOptional
	r.Observe = r.Fenced && policy.Mode == config.Observe
	if !r.Fenced {
		return r
	}
	for _, k := range cfg.Keys(&cfg.Rules[i]) {
		r.Headers = append(r.Headers, http.CanonicalHeaderKey(k.Header))
	}
	if policy.HolderHeader != "" {
		r.HolderHeader = http.CanonicalHeaderKey(policy.HolderHeader)
	}
	r.MaxToken, r.HasMaxToken = planBound(cfg, report, cfg.Setting(i, "max_token"), r.Format, policy.MaxToken)
	jump, _ := planBound(cfg, report, cfg.Setting(i, "max_jump"), r.Format, policy.MaxJump)
	r.MaxJump = jump.Major
	if !cfg.Upstream.PreserveHost {
		planHost(cfg, report, i)
	}
	return r
}

// planBound reads a bound in the format of its rule; ok is false for none.
func planBound(cfg *config.Config, report *config.Report, setting string, f tokenstore.Format, text string) (t tokenstore.Token, ok bool) {
	if text == "" || report.Has(setting) {
		return t, false
	}
	t, err := f.Parse(text)
	if err != nil {
		report.Add(cfg.Errorf(setting, "%v", err))
		return t, false
	}
	return t, true
}

var (
	hostPart = regexp.MustCompile(`\{host[|}]`)
	bodyPart = regexp.MustCompile(`\{(json:|form\.|xml:)`)
	anyPart  = regexp.MustCompile(`\{[^}]*\}`)
)

// keySetting is the place of key j of rule i in the configuration.
func keySetting(cfg *config.Config, i, j int) string {
	if len(cfg.Rules[i].Keys) == 0 {
		return fmt.Sprintf("rules[%d].key", i)
	}
	return fmt.Sprintf("rules[%d].keys[%d].key", i, j)
}

// planComparable refuses rules whose keys may be the same and whose tokens
// cannot be compared: one key has one order of tokens. It looks for keys in
// bodies, too, that no body can be read for.
func planComparable(cfg *config.Config, report *config.Report) {
	type order struct {
		format config.Format
		epoch  uint64
		rule   string
		policy config.Policy
	}
	orders := map[string]order{}
	for i := range cfg.Rules {
		policy := cfg.Policy(&cfg.Rules[i])
		for j, k := range cfg.Keys(&cfg.Rules[i]) {
			if bodyPart.MatchString(k.Template) && cfg.Limits.MaxBodyBuffer == 0 {
				report.Add(cfg.Errorf(keySetting(cfg, i, j), "the key is in the body, of which limits.max_body_buffer lets nothing be read; raise it"))
			}
			words := anyPart.ReplaceAllLiteralString(k.Template, "{}")
			now := order{policy.Format, policy.Epoch, cfg.Rules[i].Name, policy}
			before, ok := orders[words]
			if !ok {
				orders[words] = now
				continue
			}
			if before.format != now.format || before.epoch != now.epoch {
				report.Add(cfg.Errorf(keySetting(cfg, i, j), "the key %s can be the same as one of rule %s, whose tokens have another format or epoch; tokens of one key must be comparable: give both rules the same, or the keys other words", k.Template, before.rule))
			}
			if one, other := laxity(before.policy), laxity(policy); one != other {
				lax, strict := before.rule, now.rule
				if one < other {
					lax, strict = strict, lax
				}
				report.Warn(cfg.Errorf(keySetting(cfg, i, j), "the key %s can be the same in the rules %s and %s: %s lets through to the same resource what %s refuses", k.Template, before.rule, now.rule, lax, strict))
			}
		}
	}
}

// laxity grows with what a policy lets through.
func laxity(p config.Policy) int {
	switch {
	case p.Mode == config.Observe:
		return 2
	case p.Token == config.TokenOptional:
		return 1
	}
	return 0
}

// planHost refuses a key made of a host that the upstream never sees: its
// clients could choose it at will.
func planHost(cfg *config.Config, report *config.Report, i int) {
	for j, k := range cfg.Keys(&cfg.Rules[i]) {
		if hostPart.MatchString(k.Template) {
			report.Add(cfg.Errorf(keySetting(cfg, i, j), "{host} is the client's Host, which the upstream does not see with preserve_host: false; leave it out, or set preserve_host: true"))
		}
	}
}

func pathPolicy(p config.PathPolicy) route.PathPolicy {
	return route.PathPolicy{
		EncodedSlash: p.EncodedSlash == config.SlashSegment, Params: p.Params == config.ParamsKeep, Normalize: p.Normalize,
		CaseInsensitive: p.CaseInsensitive, TrailingSlash: p.TrailingSlash == config.SlashSame,
	}
}

func planRoutes(cfg *config.Config, report *config.Report, routes []route.Rule) *route.Table {
	// A rule of which something could not be read is left out: what the table
	// would say of it may be wrong.
	var sound []route.Rule
	var index []int
	for i, r := range routes {
		if !unread(report, i) {
			sound, index = append(sound, r), append(index, i)
		}
	}
	table, err := route.New(sound, route.Options{Headers: []string{cfg.Fencing.Header}})
	var errs route.Errors
	switch {
	case err == nil:
	case errors.As(err, &errs):
		for _, e := range errs {
			if e.Rule >= 0 {
				e.Rule = index[e.Rule]
			}
			report.Add(cfg.Errorf(settingOf(e), "%s", e.Msg))
		}
	default:
		report.Add(cfg.Errorf("rules", "%v", err))
	}
	return table
}

// settingOf is the configuration's path of what a rule error is about.
func settingOf(e *route.RuleError) string {
	if e.Rule < 0 {
		return "fencing." + e.Setting
	}
	return fmt.Sprintf("rules[%d].%s", e.Rule, e.Setting)
}

// unread reports whether what decides the requests of rule i has an error.
func unread(report *config.Report, i int) bool {
	for _, name := range []string{"name", "path", "methods", "key", "keys", "header", "holder_header", "token", "reads", "format", "path_policy", "websocket"} {
		if report.Has(fmt.Sprintf("rules[%d].%s", i, name)) {
			return true
		}
	}
	return false
}
