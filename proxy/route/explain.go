package route

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Explanation says how the rules see one request: what Match and Keys decide,
// and by what.
type Explanation struct {
	// Target is what would be forwarded; "" where nothing would.
	Target string
	// Path is the decoded path that the rule sees; of a request that is refused
	// or not covered, the path as it came, decoded.
	Path string
	// Folded is what the most careless upstream could take the path for.
	Folded string
	// Problem says in what the target departs from the canonical form; "" for
	// in nothing. A rule's policy may allow it.
	Problem string
	// Match is what Match returned, and Refusal its error, or that of Keys; nil
	// where the request is not refused.
	Match   Match
	Refusal *Refusal
	// Rules are all rules in their order.
	Rules []RuleExplanation
	// Keys are those of the rule that covers the request, in their order.
	Keys []KeyExplanation
}

// RuleExplanation says why a rule covers a request, or why not.
type RuleExplanation struct {
	Name string
	// Pattern is the first of the rule's that matches the path, or "".
	Pattern string
	// FoldedPattern is the first that matches the folded path, or "".
	FoldedPattern string
	// Methods reports whether the rule's methods, its reads: fence, or its
	// websocket: true cover the request.
	Methods bool
	// Chosen: this is the rule that covers the request.
	Chosen bool
	// Why is one sentence.
	Why string
}

// KeyExplanation says what one key is made of.
type KeyExplanation struct {
	Template string
	Header   string         // of the token that belongs to it
	Key      tokenstore.Key // "" where a part has no value
	Parts    []PartExplanation
}

// PartExplanation is one placeholder with its value.
type PartExplanation struct {
	Placeholder string // as it stands in the template
	Value       string // behind its filters, before it is escaped
	Problem     string // why it has no value, or ""
}

// Explain takes a request through Match and Keys and tells all that they saw.
// body is the request's, and looked into where Keys would. It costs much more
// than both, and is made for people.
func (t *Table) Explain(r *http.Request, body []byte) Explanation {
	m, tg, refusal := t.match(r)
	e := Explanation{Match: m, Refusal: refusal}
	if tg.path == "" {
		return e // no target that names a resource
	}
	s := examine(tg.path)
	e.Problem = s.problem(0)
	switch {
	case tg.absolute:
		e.Problem = aURL
	case e.Problem == "" && strings.IndexByte(tg.query, '#') >= 0:
		e.Problem = "a fragment (#)"
	}
	e.Path, e.Folded = decode(tg.path), fold(tg.path, PathPolicy{})
	if m.cover != nil {
		e.Path = m.path
	}
	q, _ := t.ask(r, tg.query)
	for _, c := range t.rules {
		e.Rules = append(e.Rules, explainRule(c, &e, &q))
	}
	if m.cover != nil {
		e.explainKeys(r, body)
	}
	if e.Refusal == nil {
		e.Target = m.Target
	}
	return e
}

func explainRule(c *compiled, e *Explanation, q *question) RuleExplanation {
	x := RuleExplanation{Name: c.rule.Name}
	x.Chosen = e.Match.cover != nil && e.Match.cover.compiled == c
	for _, p := range c.patterns {
		if x.Pattern == "" && p.stands(p.inReading(c.rule.Policy), c.rule.Policy.relax(e.Path)) {
			x.Pattern = p.text
		}
		if x.FoldedPattern == "" && p.stands(p.folded(), e.Folded) {
			x.FoldedPattern = p.text
		}
	}
	cover, _ := (&leaf{rules: []covering{{compiled: c}}}).choose(q)
	x.Methods = cover != nil
	x.Why = x.why(c, e, q)
	return x
}

// stands reports whether the pattern, written for chi, matches a path.
func (p *pattern) stands(chiPattern, path string) bool {
	one := newTree()
	var v values
	return one.add(chiPattern, covering{}) == nil && one.find(path, &v) != nil
}

func (x *RuleExplanation) why(c *compiled, e *Explanation, q *question) string {
	switch {
	case x.Chosen && e.Match.Read:
		return fmt.Sprintf("the path %s matches, and the request is a read that carries a token", x.Pattern)
	case x.Chosen && e.Match.Upgrade:
		return fmt.Sprintf("the path %s matches, and the rule takes websockets", x.Pattern)
	case x.Chosen && e.Match.Override:
		return fmt.Sprintf("the path %s matches, and a method override could make any write of the request", x.Pattern)
	case x.Chosen && e.Refusal != nil:
		return fmt.Sprintf("the path %s matches, but the request is refused", x.Pattern)
	case x.Chosen:
		return fmt.Sprintf("the path %s matches, and the rule covers %s", x.Pattern, q.method)
	case x.Pattern == "" && x.FoldedPattern == "":
		return "no path of the rule matches"
	case x.Pattern == "":
		return fmt.Sprintf("no path of the rule matches as the target stands; in its folded form, %s, the path %s does", e.Folded, x.FoldedPattern)
	case e.Match.Rule >= 0:
		return fmt.Sprintf("the path %s matches, but another rule has a more specific one, or its methods", x.Pattern)
	case !x.Methods:
		return fmt.Sprintf("the path %s matches, but the rule covers %s, not %s", x.Pattern, c.methods, q.method)
	case e.Refusal != nil:
		return fmt.Sprintf("the path %s matches, but the request is refused", x.Pattern)
	}
	return fmt.Sprintf("the path %s matches, but a more specific one of another rule leaves the request out", x.Pattern)
}

// explainKeys fills in the keys, and the refusal where the first of them fails.
func (e *Explanation) explainKeys(r *http.Request, body []byte) {
	m := &e.Match
	for k, tmpl := range m.cover.bound {
		spec := m.cover.rule.Keys[k]
		x := KeyExplanation{Template: spec.Key, Header: spec.Header}
		for i := range tmpl {
			if tmpl[i].from == fromLiteral {
				continue
			}
			value, why := tmpl[i].value(m, r, body)
			if why != "" {
				value = ""
			}
			x.Parts = append(x.Parts, PartExplanation{Placeholder: tmpl[i].text, Value: value, Problem: why})
		}
		key, refusal := tmpl.makeKey(m, r, body)
		x.Key = key
		if e.Refusal == nil {
			e.Refusal = refusal
		}
		e.Keys = append(e.Keys, x)
	}
}
