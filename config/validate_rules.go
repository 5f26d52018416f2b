package config

import (
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
)

var (
	ruleName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)
	method   = regexp.MustCompile(`^[A-Z][A-Z0-9-]{0,30}$`)
	header   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,62}$`)
)

// usualWrites are the writes of whom a rule that leaves one out gets a
// warning: a method override in a form body cannot be seen.
var usualWrites = []string{"POST", "PUT", "PATCH", "DELETE"}

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

func (v *validator) rule(path string, r *Rule) {
	if r.Name == "" {
		v.fail(path+".name", "is missing", "a word for logs and metrics, as in accounts")
	} else if !ruleName.MatchString(r.Name) {
		v.fail(path+".name", quote(r.Name)+" is not a plain word", "a letter, then at most 62 letters, digits, _ or -")
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
	p := v.cfg.Policy(r)
	switch fenced := p.Token != TokenNone; {
	case fenced && r.Key == "" && !v.bad[path+".token"]:
		v.fail(path+".key", "is missing", "what the path names, as in account:{id}; or token: none")
	case !fenced && r.Key != "":
		v.warn(path+".key", "has no effect: the rule has token: none", "leave it out")
	case fenced:
		v.narrow(path+".methods", r.Methods)
	}
	v.overrides(path, r, p)
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

// narrow warns of a fenced rule that a form's _method may get around.
func (v *validator) narrow(path string, methods []string) {
	if methods == nil {
		return
	}
	var missing []string
	for _, m := range usualWrites {
		if !slices.Contains(methods, m) {
			missing = append(missing, m)
		}
	}
	if missing != nil {
		v.warn(path, "leaves out "+strings.Join(missing, ", ")+", and a _method in a form's body cannot be seen",
			"leave methods out, unless the upstream takes no method overrides")
	}
}

// overrides looks at what the rule sets itself, so that a wrong default is
// not told again for each rule.
func (v *validator) overrides(path string, r *Rule, p Policy) {
	if r.Header != nil {
		if message, remedy := checkHeader(p.Header); message != "" {
			v.fail(path+".header", message, remedy)
		}
	}
	if r.DrainTimeout != nil {
		v.duration(path+".drain_timeout", p.DrainTimeout)
	}
	if r.ResponseTimeout != nil {
		v.duration(path+".response_timeout", p.ResponseTimeout)
	}
	if r.Settle != nil {
		v.duration(path+".settle", p.Settle)
	}
}

// taken are the header names that mean something else on the way: a token in
// one of them would be dropped, rewritten or misread.
var taken = []string{
	"Authorization", "Connection", "Cookie", "Date", "Expect", "Forwarded", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Original-Url", "X-Rewrite-Url",
}

// checkHeader returns "" for a name that may carry a token.
func checkHeader(name string) (message, remedy string) {
	const example = "letters, digits and -, as in X-Fencing-Token"
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case name == "":
		return "is empty", example
	case !header.MatchString(name):
		// _ and . are left out because servers fold them to -.
		return quote(name) + " is not a header name that reaches every server as it is", example
	case slices.Contains(taken, canonical):
		return canonical + " means something else in HTTP", "a header of its own, as in X-Fencing-Token"
	}
	for _, prefix := range []string{"Fencing-", "Content-", "Proxy-", "X-Forwarded-"} {
		if strings.HasPrefix(canonical, prefix) {
			return "headers " + prefix + "* mean something else", "a header of its own, as in X-Fencing-Token"
		}
	}
	return "", ""
}
