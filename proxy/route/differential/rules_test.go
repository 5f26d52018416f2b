package differential

import (
	"net/http"
	"strings"

	"github.com/fenceproxy/fenceproxy/proxy/route"
)

// ruleSet is a set of rules that differ in their path policies.
type ruleSet struct {
	name string
	// rules of a server that is described by needs at the least and policy at
	// the most
	rules func(needs, policy route.PathPolicy) []route.Rule
}

// ids have their keys from parameters, the query, the host and a header.
var ids = ruleSet{"ids", func(_, policy route.PathPolicy) []route.Rule { return idRules(policy) }}

// The others have keys from what is left of the path, and from all of it.
var (
	narrow = ruleSet{"narrow", func(_, policy route.PathPolicy) []route.Rule {
		return append(idRules(policy), rule("files", policy, "file:{*}", "/files/*"))
	}}
	broad = ruleSet{"broad", func(needs, policy route.PathPolicy) []route.Rule {
		return append(narrow.rules(needs, policy), rule("all", policy, "path:{path}", "/*"))
	}}
	relaxedBelow = ruleSet{"relaxed below", func(needs, policy route.PathPolicy) []route.Rule {
		return append(narrow.rules(needs, needs), rule("all", policy, "path:{path}", "/*"))
	}}
	relaxedAbove = ruleSet{"relaxed above", func(needs, policy route.PathPolicy) []route.Rule {
		return append(narrow.rules(needs, policy), rule("all", needs, "path:{path}", "/*"))
	}}
)

func idRules(policy route.PathPolicy) []route.Rule {
	return []route.Rule{
		rule("accounts", policy, "account:{id}", "/accounts/{id}", "/accounts/{id}/*"),
		rule("orders", policy, "order:{query.id}", "/orders"),
		rule("sites", policy, "site:{host}:{site}", "/sites/{site}"),
		rule("boxes", policy, "box:{header.X-Box}:{id}", "/boxes/{id}"),
	}
}

func rule(name string, policy route.PathPolicy, key string, paths ...string) route.Rule {
	return route.Rule{Name: name, Paths: paths, Policy: policy, Keys: []route.KeySpec{{Key: key, Header: "X-Fencing-Token"}}}
}

// verdict is what becomes of a request. The zero value is a refusal.
type verdict struct {
	passes    bool
	key       string // "" where no rule covers the request
	target    string // that is forwarded
	forwarded string // all bytes that are
}

// router is what is tried: the rules, or something worse.
type router interface {
	judge(r *http.Request) verdict
}

// fence is a table with what the proxy does around it.
type fence struct{ *route.Table }

// judge lets a write that no rule covers pass, as `unmatched_writes: forward`
// does: that is the hardest for the rules.
func (f fence) judge(r *http.Request) verdict {
	m, err := f.Match(r)
	switch {
	case err != nil:
		return verdict{}
	case !m.Covered():
		return verdict{passes: true, target: m.Target}
	case readToken(r) == "":
		return verdict{}
	}
	keys, err := f.Keys(&m, r, nil)
	if err != nil {
		return verdict{}
	}
	return verdict{passes: true, key: string(keys[0]), target: m.Target}
}

// readToken is the request's token as the proxy reads one, or "".
func readToken(r *http.Request) string {
	lines := r.Header["X-Fencing-Token"]
	if len(lines) != 1 || strings.Trim(lines[0], "0123456789") != "" {
		return ""
	}
	return lines[0]
}

// naive is a router as one would write it in a hurry: the path as it came is
// the key, and everything passes.
type naive struct{}

func (naive) judge(r *http.Request) verdict {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return verdict{passes: true, key: path, target: r.RequestURI}
}
