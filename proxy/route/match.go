package route

import (
	"net/http"
	"strings"
)

// Match is what the rules say of a request.
type Match struct {
	// Rule is the index of the rule that covers the request, or -1.
	Rule int
	// PathRule is the index of a rule whose path matches but whose methods
	// leave the request out, or -1: why a write is not covered.
	PathRule int
	// Write: the method is not safe, or the request carries a method override.
	Write bool
	// Override: the request carries a method-override header or `_method`.
	Override bool
	// Target is the request target to forward, path and query byte for byte.
	// Only the authority of an absolute-form is taken off; net/http has it in
	// r.Host.
	Target string

	cover  *covering
	path   string // canonical, decoded; the key's {path}
	query  string // raw
	values values // of the path's parameters, in path
}

// Covered reports whether a rule covers the request. A covered request passes
// the fence, a safe one too where a rule names its method. Of the others,
// safe ones are forwarded untouched, and of writes unmatched_writes decides.
func (m *Match) Covered() bool { return m.cover != nil }

// Match finds the rule of a request, or why the request must not be forwarded;
// its errors are *Refusal. It reads r.Method, r.RequestURI and r.Header, and
// changes nothing.
//
// Which checks see which request (contract, section 3):
//
//	check                         covered  other write  other safe request
//	CONNECT, `*`, PRI, no target  refused  refused      refused
//	Upgrade                       refused  refused      refused
//	method override               counts   counts       makes it a write
//	target not canonical          refused  passes (a)   passes
//	path-alias                    refused  refused      passes (b)
//	header-alias                  refused  refused      passes
//	connection-option             refused  passes       passes
//	rewrite headers, trailers     dropped  dropped      dropped
//
// (a) A target that is not canonical counts as covered when a rule covers it
// as it stands or in its folded form.
// (b) Unless a rule with a safe method in its `methods` covers what it folds to.
func (t *Table) Match(r *http.Request) (Match, error) {
	m := Match{Rule: -1, PathRule: -1}
	target, refusal := splitTarget(r.Method, r.RequestURI)
	if refusal != nil {
		return m, refusal
	}
	found := t.guard.inspect(r.Header)
	if found.upgrade {
		return m, refuse(UpgradeRefused, -1, "Upgrade would open a tunnel past the fence; send the request without it")
	}
	m.Target, m.query = target.forward, target.query
	m.Override = found.override || hasMethodField(target.query)
	m.Write = m.Override || !IsSafe(r.Method)
	if !m.Write && !t.fencesSafe {
		return m, nil
	}
	if refusal := t.matchPath(&m, r.Method, target); refusal != nil {
		return m, refusal
	}
	if !m.Write && m.cover == nil {
		return m, nil
	}
	if found.alias != "" {
		return m, refuse(HeaderAlias, m.Rule, "the header %s is read as %s by some upstreams; spell it %s or leave it out", found.alias, found.aliasOf, found.aliasOf)
	}
	if m.cover == nil {
		return m, nil
	}
	if name := t.guard.nominated(r.Header); name != "" {
		return m, refuse(ConnectionOption, m.Rule, "Connection names %s, which would be taken off on the way to the upstream; leave it out of Connection", name)
	}
	return m, nil
}

// matchPath finds the covering rule by the path as it stands and by its folded
// form, and refuses where the two do not agree.
func (t *Table) matchPath(m *Match, method string, target target) *Refusal {
	s := examine(target.path)
	switch {
	case target.absolute:
		s.problem = "not in origin-form (it is a URL)"
	case s.problem == "" && strings.IndexByte(target.query, '#') >= 0:
		s.problem = "a fragment (#)"
	}
	m.path = target.path
	if s.escaped {
		m.path = decode(target.path)
	}
	here := t.exact.find(m.path, &m.values)
	cover, several := here.choose(method, m.Override)

	if s.problem == "" && s.plain && t.foldSame {
		return m.settle(here, cover, several)
	}
	var fv values
	var fpath string
	if s.escaped {
		fpath = fold(target.path)
	} else {
		fpath = foldCanonical(target.path)
	}
	there := t.folded.find(fpath, &fv)
	foldCover, foldSeveral := there.choose(method, m.Override)

	switch {
	case s.problem != "" && cover != nil:
		return refuse(PathNotCanonical, cover.rule, "the target has %s; send it in its canonical spelling", s.problem)
	case s.problem != "" && foldCover != nil:
		return refuse(PathNotCanonical, foldCover.rule, "the target has %s and could be taken for %s; send it in its canonical spelling", s.problem, fpath)
	case there == nil || cover == nil && foldCover == nil:
		// The folded form selects nothing that is fenced.
	case cover == nil || foldCover == nil || cover.rule != foldCover.rule:
		return refuse(PathAlias, there.rules[0].rule, "some upstreams take the target for %s, where another rule applies; send that spelling, or the one that the rule's path has", fpath)
	case !sameKey(cover, &m.values, m.path, foldCover, &fv, fpath):
		return refuse(PathAlias, cover.rule, "some upstreams take the target for %s, which has another resource key; send it in the spelling that the key has", fpath)
	}
	return m.settle(here, cover, several || foldSeveral)
}

// settle puts the rule into the match.
func (m *Match) settle(here *leaf, cover *covering, several bool) *Refusal {
	if cover == nil {
		if here != nil {
			m.PathRule = here.rules[0].rule
		}
		return nil
	}
	m.Rule, m.cover = cover.rule, cover
	if several {
		return refuse(KeyUnresolvable, cover.rule, "the request carries a method override and several rules share its path, so none is sure to be right; send the method itself")
	}
	return nil
}
