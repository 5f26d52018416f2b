// Package route makes of a request the rule that covers it and the resource
// keys that the rule gives it, or the reason why it must not be forwarded.
//
// One resource must never have two keys. So the target is read from the bytes
// that the client sent and that the upstream will get, a write passes only in
// the canonical spelling, and a spelling that a careless upstream could take
// for another resource is refused as an alias. What an upstream is known to
// read in one way only, a rule's PathPolicy may relax.
//
// The package decides and has no effect: it makes no answer and raises nothing.
package route

import (
	"fmt"
	"net/http"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Table is a set of rules, ready to match. It is not changed after New, and
// all its methods are safe for concurrent use.
type Table struct {
	rules    []*compiled
	readings []reading // one for each policy among the rules, the strict one first
	folded   *tree     // for folded paths
	guard    guard
	// fencesSafe: some rule covers a safe method, so safe requests are looked
	// up too.
	fencesSafe bool
	// foldSame: the trees differ in nothing that a path in its own folded form
	// could meet, so the second look-up can be left out.
	foldSame bool
}

// New reads the rules. Its error is an Errors with everything that is wrong.
func New(rules []Rule, o Options) (*Table, error) {
	var errs Errors
	all := make([]*compiled, len(rules))
	for i, r := range rules {
		all[i] = compile(i, r, &errs)
	}
	conflicts(all, &errs)
	t := &Table{rules: all, folded: newTree(), foldSame: true}
	t.guard = protectAll(all, o, &errs)
	if len(errs) > 0 {
		return nil, errs
	}
	t.readings = readingsOf(all)
	for i, c := range all {
		t.fencesSafe = t.fencesSafe || c.methods.safe()
		for j, p := range c.patterns {
			errs.add(i, fmt.Sprintf("path[%d]", j), t.insert(c, p))
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return t, nil
}

// insert puts a pattern into every tree: a rule of one policy may be the more
// specific one for a target that is read by another.
func (t *Table) insert(c *compiled, p *pattern) error {
	cov := covering{compiled: c, pattern: p, bound: make([]template, len(c.keys))}
	for k, key := range c.keys {
		bound, err := key.bind(p)
		if err != nil {
			return err
		}
		cov.bound[k] = bound
	}
	t.foldSame = t.foldSame && p.exact() == p.folded()
	for i := range t.readings {
		if err := t.readings[i].tree.add(p.inReading(t.readings[i].policy), cov); err != nil {
			return err
		}
	}
	return t.folded.add(p.folded(), cov)
}

// protectAll gathers the headers that must arrive as they came.
func protectAll(all []*compiled, o Options, errs *Errors) guard {
	g := newGuard()
	for _, name := range o.Headers {
		errs.add(-1, "header", g.protect(name))
	}
	for i, c := range all {
		for _, name := range c.rule.Headers {
			errs.add(i, "header", g.protect(name))
		}
		for k, spec := range c.rule.Keys {
			if spec.Header == "" {
				continue
			}
			err := g.protect(spec.Header)
			errs.add(i, c.setting(k, "header"), err)
			if err == nil && c.rule.FenceReads {
				g.find(http.CanonicalHeaderKey(spec.Header)).reads = true
			}
		}
	}
	fencing := append(guard(nil), g...)
	for i, c := range all {
		for k, t := range c.keys {
			for _, part := range t {
				if part.from != fromHeader {
					continue
				}
				if fencing.find(part.name) != nil {
					errs.add(i, c.setting(k, "key"), fmt.Errorf("the key has %s, a fencing header; each token would have a key of its own", part.text))
					continue
				}
				errs.add(i, c.setting(k, "key"), g.protect(part.name))
			}
		}
		if c.body != fromLiteral {
			// What the body means must arrive as it was read here.
			errs.add(i, "key", g.protect("Content-Type"))
			errs.add(i, "key", g.protect("Content-Encoding"))
		}
	}
	return g
}

// NeedsBody reports whether Keys will look into the body of a request that m
// covers: it must then be read whole, within the bound of the caller.
func (t *Table) NeedsBody(m *Match) bool { return m.cover != nil && m.cover.body != fromLiteral }

// Keys makes the resource keys of a request that a rule covers, in the order
// of Rule.Keys; two may be equal. m must be what Match returned for r, and
// body the whole body where NeedsBody says so; it is neither kept nor changed.
// Keys is asked after the tokens were found good; its errors are *Refusal, of
// the kind KeyUnresolvable.
func (t *Table) Keys(m *Match, r *http.Request, body []byte) ([]tokenstore.Key, error) {
	if m.cover == nil || len(m.cover.bound) == 0 {
		return nil, refuse(KeyUnresolvable, m.Rule, "no rule gives this request a resource key; this is an error of the proxy")
	}
	keys := make([]tokenstore.Key, len(m.cover.bound))
	for k, tmpl := range m.cover.bound {
		key, refusal := tmpl.makeKey(m, r, body)
		if refusal != nil {
			return nil, refusal
		}
		keys[k] = key
	}
	return keys, nil
}
