package main

import (
	"fmt"
	"slices"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// lint adds what may be meant, but seldom is.
func lint(cfg *config.Config, p planned, report *config.Report) {
	if report.Err() != nil {
		return // it looks at rules that are right as they stand
	}
	lintModes(cfg, p, report)
	lintDestinations(cfg, p, report)
	lintLeases(cfg, p, report)
	for _, w := range route.Lint(p.routes) {
		report.Warn(cfg.Errorf(fmt.Sprintf("rules[%d].%s", w.Rule, w.Setting), "%s", w.Msg))
	}
}

// lintModes looks for rules that observe and are not left alone, and for rules
// that enforce and leave a way around.
func lintModes(cfg *config.Config, p planned, report *config.Report) {
	enforces := slices.IndexFunc(p.rules, func(r proxy.Rule) bool { return r.Fenced && !r.Observe })
	for i := range p.rules {
		if p.rules[i].Observe && p.rules[i].Optional {
			report.Warn(cfg.Errorf(cfg.Setting(i, "token"), "rule %s observes, which refuses no write without a token anyhow; token: optional only keeps such a write from being told as would-reject;reason=token-required (token: required as long as it observes, to find the writers that send none)", p.rules[i].Name))
		}
		switch {
		case !p.rules[i].Observe:
		case enforces >= 0:
			report.Warn(cfg.Errorf(cfg.Setting(i, "mode"), "rule %s observes, but other spellings of its paths are refused all the same as long as rule %s enforces: they could be taken for one of its paths", p.rules[i].Name, p.rules[enforces].Name))
		case cfg.UnmatchedWrites != config.Forward:
			report.Warn(cfg.Errorf(cfg.Setting(i, "mode"), "rule %s observes, but writes that no rule covers, and other spellings of its paths, are refused all the same: set unmatched_writes: forward as long as nothing is to be refused", p.rules[i].Name))
		}
	}
	if enforces >= 0 && cfg.UnmatchedWrites == config.Forward {
		report.Warn(cfg.Errorf("unmatched_writes", "rule %s enforces, but a write that no rule covers passes unfenced to the same upstream (reject, and a rule with token: none for each path whose writes need no fence)", p.rules[enforces].Name))
	}
}

// hasDestination reports whether a method writes to a second resource, in its
// Destination header, that no key is made of.
func hasDestination(method string) bool { return method == "MOVE" || method == "COPY" }

// lintDestinations looks for rules that name such a method, and so may count on
// more than is fenced.
func lintDestinations(cfg *config.Config, p planned, report *config.Report) {
	for i := range p.rules {
		for j, method := range cfg.Rules[i].Methods {
			if p.rules[i].Fenced && hasDestination(method) {
				report.Warn(cfg.Errorf(fmt.Sprintf("rules[%d].methods[%d]", i, j), "a %s is fenced by the path that it names, and not by its Destination, which it overwrites (a key that both have, as in share:{share} for /shares/{share}/*)", method))
			}
		}
	}
}

// lintLeases looks for leases that no rule's key can have.
func lintLeases(cfg *config.Config, p planned, report *config.Report) {
	decimal := func(r proxy.Rule) bool { return r.Fenced && r.Format == tokenstore.Decimal }
	if cfg.Leases.On() && !slices.ContainsFunc(p.rules, decimal) {
		report.Warn(cfg.Errorf("leases.address", "leases have decimal tokens, and no rule with format: decimal is fenced, so that none can be granted but with \"fence\": false (such a rule for what is written under a lease)"))
	}
}
