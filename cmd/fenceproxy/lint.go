package main

import (
	"fmt"
	"slices"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy"
	"github.com/fenceproxy/fenceproxy/proxy/route"
)

// lint adds what may be meant, but seldom is.
func lint(cfg *config.Config, p planned, report *config.Report) {
	if report.Err() != nil {
		return // it looks at rules that are right as they stand
	}
	lintModes(cfg, p, report)
	for _, w := range route.Lint(p.routes) {
		report.Warn(cfg.Errorf(fmt.Sprintf("rules[%d].%s", w.Rule, w.Setting), "%s", w.Msg))
	}
}

// lintModes looks for rules that observe and are not left alone, and for rules
// that enforce and leave a way around.
func lintModes(cfg *config.Config, p planned, report *config.Report) {
	enforces := slices.IndexFunc(p.rules, func(r proxy.Rule) bool { return r.Fenced && !r.Observe })
	for i := range p.rules {
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
