package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	ruleName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)
	method   = regexp.MustCompile(`^[A-Z][A-Z0-9-]{0,30}$`)
)

func (v *validator) rules() {
	if len(v.cfg.Rules) == 0 && !v.cfg.given("unmatched_writes") {
		v.fail("rules", "there is none, so that every write is refused", "at least one rule, or unmatched_writes to say what is meant")
	}
	first := map[string]int{}
	for i := range v.cfg.Rules {
		r, path := &v.cfg.Rules[i], fmt.Sprintf("rules[%d]", i)
		v.rule(path, r)
		if other, taken := first[r.Name]; taken {
			v.fail(path+".name", fmt.Sprintf("%s is the name of rules[%d] too", quote(r.Name), other), "a name of its own")
		} else if r.Name != "" {
			first[r.Name] = i
		}
	}
}

// noRule is the rule that the proxy names where there is none.
const noRule = "none"

func (v *validator) rule(path string, r *Rule) {
	if r.Name == "" {
		v.fail(path+".name", "is missing", "a word for logs and metrics, as in accounts")
	} else if !ruleName.MatchString(r.Name) {
		v.fail(path+".name", quote(r.Name)+" is not a plain word", "a letter, then at most 62 letters, digits, _ or -")
	} else if r.Name == noRule {
		v.fail(path+".name", quote(r.Name)+" stands in metrics and logs for what no rule covers", "another word")
	}
	if len(r.Paths) == 0 {
		v.fail(path+".path", "is missing", "a pattern or a list of them, as in /accounts/{id}")
	}
	for i, p := range r.Paths {
		if !strings.HasPrefix(p, "/") {
			v.fail(fmt.Sprintf("%s.path[%d]", path, i), quote(p)+" does not begin with /", "as in /accounts/{id}")
		}
	}
	v.methods(path+".methods", r.Methods)
	if r.WebSocket && strings.HasPrefix(strings.ToLower(v.cfg.Upstream.URL), "h2c:") {
		v.fail(path+".websocket", "needs HTTP/1.1, which an h2c upstream does not speak", "an http or https URL in upstream.url")
	}
	p := v.cfg.Policy(r)
	v.key(path, r, p)
	v.override(path, r, p)
}

func (v *validator) methods(path string, methods []string) {
	if methods != nil && len(methods) == 0 {
		v.fail(path, "is empty", "at least one, or leave it out for every write")
	}
	for i, m := range methods {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case method.MatchString(strings.ToUpper(m)) && m != strings.ToUpper(m):
			v.fail(at, quote(m)+" is not in upper case, and methods are told apart by it", strings.ToUpper(m))
		case !method.MatchString(m):
			v.fail(at, quote(m)+" is not a method", "as in PUT")
		case m == "CONNECT":
			v.fail(at, "CONNECT never passes", "leave it out")
		case slices.Contains(methods[:i], m):
			v.fail(at, m+" stands twice", "once")
		}
	}
}

// override looks at what the rule sets itself.
func (v *validator) override(path string, r *Rule, p Policy) {
	sets := func(name string) bool { return v.cfg.given(join(path, name)) }
	v.fencing(path, p.Fencing, sets)
	v.inherited(path, r, p)
	if sets("response_timeout") {
		v.duration(path+".response_timeout", p.ResponseTimeout)
	}
	if sets("settle") {
		v.duration(path+".settle", p.Settle)
	}
}

// inherited refuses bounds that were written for another format: 100 is a
// token in decimal and in hex, but not the same one.
func (v *validator) inherited(path string, r *Rule, p Policy) {
	f := v.cfg.Fencing
	if p.Format == f.Format || p.Token == TokenNone || v.bad["fencing.format"] {
		return
	}
	var bounds []string
	if r.MaxToken == nil && f.MaxToken != "" {
		bounds = append(bounds, "max_token")
	}
	if r.MaxJump == nil && f.MaxJump != "" {
		bounds = append(bounds, "max_jump")
	}
	if bounds != nil {
		names := strings.Join(bounds, " and ")
		v.fail(path+".format", fmt.Sprintf("is %s, but fencing sets %s for %s tokens", p.Format, names, f.Format),
			names+` in the rule too, "" for no bound`)
	}
}
