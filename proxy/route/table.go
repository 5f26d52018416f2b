// Package route makes of a request the rule that covers it and the resource
// key that the rule gives it, or the reason why it must not be forwarded.
//
// One resource must never have two keys. So the target is read from the bytes
// that the client sent and that the upstream will get, a write passes only in
// the canonical spelling, and a spelling that a careless upstream could take
// for another resource is refused as an alias.
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
	exact  *tree // for canonical paths, decoded
	folded *tree // for folded paths
	guard  guard
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
	t := &Table{exact: newTree(), folded: newTree(), foldSame: true}
	t.guard = protectAll(all, o, &errs)
	if len(errs) > 0 {
		return nil, errs
	}
	for i, c := range all {
		t.fencesSafe = t.fencesSafe || c.methods.safe()
		for j, p := range c.patterns {
			errs.add(i, fmt.Sprintf("path[%d]", j), t.insert(i, c, p))
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return t, nil
}

func (t *Table) insert(i int, c *compiled, p *pattern) error {
	bound, err := c.key.bind(p)
	if err != nil {
		return err
	}
	cov := covering{rule: i, methods: c.methods, key: bound}
	t.foldSame = t.foldSame && p.exact() == p.folded()
	if err := t.exact.add(p.exact(), cov); err != nil {
		return err
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
	}
	fencing := append(guard(nil), g...)
	for i, c := range all {
		for _, part := range c.key {
			if part.from != fromHeader {
				continue
			}
			if fencing.find(part.name) != nil {
				errs.add(i, "key", fmt.Errorf("the key has %s, a fencing header; each token would have a key of its own", part.text))
				continue
			}
			errs.add(i, "key", g.protect(part.name))
		}
	}
	return g
}

// Key makes the resource key of a request that a rule covers. m must be what
// Match returned for r. It is asked after the token was found good; its errors
// are *Refusal.
func (t *Table) Key(m *Match, r *http.Request) (tokenstore.Key, error) {
	if m.cover == nil || len(m.cover.key) == 0 {
		return "", refuse(KeyUnresolvable, m.Rule, "no rule gives this request a resource key; this is an error of the proxy")
	}
	key, refusal := m.cover.key.makeKey(m, r)
	if refusal != nil {
		return "", refusal
	}
	return key, nil
}
