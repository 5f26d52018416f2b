package route

import "fmt"

// place is one path of one rule.
type place struct {
	rule, path int
	pattern    *pattern
}

// conflicts finds the patterns that chi would let silently win over each
// other, and those that differ so little that all their writes would be
// refused as aliases of each other.
func conflicts(rules []*compiled, errs *Errors) {
	shapes := map[string][]place{}
	type spot struct {
		place
		expr string
	}
	spots := map[string]spot{}
	for i, c := range rules {
		for j, p := range c.patterns {
			if p == nil {
				continue
			}
			setting := fmt.Sprintf("path[%d]", j)
			now := place{i, j, p}
			shape := p.folded()
			for _, before := range shapes[shape] {
				if err := clash(rules, before, now); err != nil {
					errs.add(i, setting, err)
					break
				}
			}
			shapes[shape] = append(shapes[shape], now)
			for at, expr := range p.places() {
				if s, ok := spots[at]; ok && s.expr != expr {
					errs.add(i, setting, fmt.Errorf("the pattern %q has another regular expression at the place where %q has one (%s); chi would try them by their text, so use one expression for both",
						p.text, s.pattern.text, describe(rules, s.place)))
				} else if !ok {
					spots[at] = spot{now, expr}
				}
			}
		}
	}
}

// clash says why two patterns of one folded shape cannot stand side by side,
// or nil.
func clash(rules []*compiled, a, b place) error {
	where := describe(rules, a)
	for k, name := range a.pattern.names {
		if b.pattern.names[k] != name {
			return fmt.Errorf("the pattern %q has the same shape as %q (%s) with other parameter names; make them one, or use the same names and different methods",
				b.pattern.text, a.pattern.text, where)
		}
	}
	same := a.pattern.exact() == b.pattern.exact()
	switch {
	case a.rule == b.rule && same:
		return fmt.Errorf("the pattern %q stands twice in the rule", b.pattern.text)
	case a.rule == b.rule:
		return nil
	case !same:
		return fmt.Errorf("the pattern %q differs from %q (%s) only in letter case or a trailing slash, and every write to one would be refused as an alias of the other; put both into one rule",
			b.pattern.text, a.pattern.text, where)
	}
	one, other := rules[a.rule], rules[b.rule]
	if m := one.methods.common(other.methods); m != "" {
		return fmt.Errorf("the pattern %q is also that of %s, and both cover %s; give the rules different methods, or make them one", b.pattern.text, where, m)
	}
	if one.rule.WebSocket && other.rule.WebSocket {
		return fmt.Errorf("the pattern %q and websocket: true are also those of %s; leave websocket out of one", b.pattern.text, where)
	}
	if one.rule.FenceReads && other.rule.FenceReads && !one.sameKeys(other) && one.sharesHeader(other) {
		return fmt.Errorf("the pattern %q and reads: fence are also those of %s, which makes another key for the same token header; set reads: pass in one", b.pattern.text, where)
	}
	return nil
}

func describe(rules []*compiled, p place) string {
	if name := rules[p.rule].rule.Name; name != "" {
		return fmt.Sprintf("rule %s, path[%d]", name, p.path)
	}
	return fmt.Sprintf("rules[%d].path[%d]", p.rule, p.path)
}
