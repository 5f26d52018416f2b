package route

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// RuleWarning is something in the rules that is allowed and hardly meant. It
// has the shape of a RuleError.
type RuleWarning struct {
	Rule    int    // index of the rule
	Setting string // as in RuleError
	Msg     string // what may go wrong, and what would be right
}

// Lint looks for rules that work and yet leave a way around the fence, or that
// never do anything. It returns nothing for rules that New refuses. The
// warnings are in the order of the rules.
func Lint(rules []Rule) []RuleWarning {
	t, err := New(rules, Options{})
	if err != nil {
		return nil
	}
	l := linter{table: t}
	for _, c := range t.rules {
		l.narrow(c)
		for j, p := range c.patterns {
			setting := fmt.Sprintf("path[%d]", j)
			l.colon(c, p, setting)
			l.shadowed(c, p, setting)
			l.below(c, p, setting)
			l.ownSlash(c, p, setting)
		}
		for k := range c.keys {
			l.twoKeys(c, k)
		}
	}
	return l.found
}

type linter struct {
	table *Table
	found []RuleWarning
}

func (l *linter) warn(c *compiled, setting, format string, args ...any) {
	l.found = append(l.found, RuleWarning{c.index, setting, fmt.Sprintf(format, args...)})
}

// colon warns of what is a parameter to other routers, and stands for itself here.
func (l *linter) colon(c *compiled, p *pattern, setting string) {
	for _, part := range p.parts {
		if part.kind != partLiteral {
			continue
		}
		for _, segment := range strings.Split(part.text, "/")[1:] { // before the first / is the end of another
			if name := strings.TrimPrefix(segment, ":"); name != segment && name != "" {
				l.warn(c, setting, "%q in the pattern %q stands for itself, and for no other value; a parameter is written {%s}", segment, p.text, name)
				return
			}
		}
	}
}

// shadowed warns of a pattern all of whose paths another one takes first. It
// tries paths: what is taken of all of them is taken.
func (l *linter) shadowed(c *compiled, p *pattern, setting string) {
	var winner *covering
	var path string
	for _, path = range p.examples() {
		if !p.stands(p.exact(), path) {
			continue
		}
		leaf := l.table.find(path)
		if leaf == nil || leaf.has(c) {
			return
		}
		winner = &leaf.rules[0]
	}
	if winner != nil {
		l.warn(c, setting, "the pattern %q never matches: paths like %s are taken first by %q of %s; leave it out, or make the other one narrower",
			p.text, path, winner.pattern.text, nameOf(winner.compiled))
	}
}

// below warns of a pattern that ends in a parameter where what lies below it
// is on no rule's path.
func (l *linter) below(c *compiled, p *pattern, setting string) {
	if c.rule.NoKey || p.parts[len(p.parts)-1].kind != partParam || c.takesGRPC() {
		return
	}
	want := p.folded() + "/*"
	for _, other := range l.table.rules {
		for _, q := range other.patterns {
			if q.folded() == want {
				return
			}
		}
	}
	l.warn(c, setting, "a write below %q, as to %s, has no key of this rule; add %q to its path (once the rule has run: in a rule of its own with the same key), unless nothing is written there",
		p.text, p.examples()[0]+"/x", p.text+"/*")
}

// ownSlash warns of a pattern /files/* whose rule has no /files: every write to
// /files/ is an alias of that. Where the key has {*}, which is empty there, no
// such write was meant.
func (l *linter) ownSlash(c *compiled, p *pattern, setting string) {
	if c.rule.NoKey || p.parts[len(p.parts)-1].kind != partRest || len(p.segments) < 2 || c.has(fromRest) {
		return
	}
	path := p.examples()[0] // in the first one * stands for nothing
	bare := strings.TrimSuffix(path, "/")
	leaf := l.table.find(bare)
	if leaf.has(c) || !l.table.find(path).has(c) {
		return
	}
	where := "no rule's path"
	if leaf != nil {
		where = fmt.Sprintf("the path %q of %s", leaf.rules[0].pattern.text, nameOf(leaf.rules[0].compiled))
	}
	l.warn(c, setting, "every write to %s is refused as an alias of %s, which is on %s; add %q to the path of this rule",
		path, bare, where, strings.TrimSuffix(p.text, "/*"))
}

// narrow warns of methods that leave writes out, and of those that a hidden
// method override gets around.
func (l *linter) narrow(c *compiled) {
	if c.rule.NoKey || c.methods == nil || !slices.ContainsFunc(c.methods, func(m string) bool { return !IsSafe(m) }) {
		return
	}
	var missing []string
	hidden := false // a POST may be any of the rule's writes, and gets other keys
	for _, m := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		if c.methods.has(m) {
			continue
		}
		beside := l.beside(c, m)
		if beside == nil {
			missing = append(missing, m)
		}
		hidden = hidden || m == "POST" && (beside == nil || !beside.sameKeys(c))
	}
	switch {
	case missing != nil && hidden:
		l.warn(c, "methods", "leaves out %s, and a _method in a form's body cannot be seen (leave methods out, unless the upstream takes no method overrides)", strings.Join(missing, ", "))
	case missing != nil:
		l.warn(c, "methods", "leaves out %s (leave methods out, unless such a write changes nothing that the key stands for)", strings.Join(missing, ", "))
	case hidden:
		l.warn(c, "methods", "a POST with _method in its form's body is a write of this rule to some upstreams, and gets the key of %s; use one key for both, unless the upstream takes no method overrides", nameOf(l.beside(c, "POST")))
	}
}

// beside is a rule that covers a method on every path of c, or nil.
func (l *linter) beside(c *compiled, method string) *compiled {
	for _, other := range l.table.rules {
		if !other.methods.covers(method) {
			continue
		}
		all := true
		for _, p := range c.patterns {
			all = all && slices.ContainsFunc(other.patterns, func(q *pattern) bool { return q.folded() == p.folded() })
		}
		if all {
			return other
		}
	}
	return nil
}

// twoKeys warns of a template that looks like that of a rule before and makes
// other keys of what may be the same resource.
func (l *linter) twoKeys(c *compiled, k int) {
	for _, before := range l.table.rules[:c.index] {
		for b, t := range before.keys {
			if why := differ(t, c.keys[k]); why != "" {
				l.warn(c, c.setting(k, "key"), "the key %s has the same text as %s of %s and %s: see that both name the same thing in the same spelling, or a resource on both paths has two keys",
					c.rule.Keys[k].Key, before.rule.Keys[b].Key, nameOf(before), why)
				return
			}
		}
	}
}

// differ says how two templates with the same words differ in what they make
// of a resource, or "". Values from different places may be the same, with the
// same filters; parameters of paths have names that say what they are.
func differ(a, b template) string {
	wordsA, partsA := a.split()
	wordsB, partsB := b.split()
	if wordsA == "" || wordsA != wordsB {
		return ""
	}
	if len(partsA) != len(partsB) {
		return "other parameters"
	}
	for i, p := range partsA {
		q := partsB[i]
		if p.from == fromParam && q.from == fromParam && p.name != q.name {
			return "other parameters"
		}
		if !slices.Equal(p.filters, q.filters) {
			return "other filters"
		}
	}
	return ""
}

// split returns the words in the literal text, and the placeholders.
func (t template) split() (words string, parts []keyPart) {
	for _, part := range t {
		if part.from != fromLiteral {
			parts = append(parts, part)
			continue
		}
		for word := range strings.FieldsFuncSeq(part.text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			words += word + " "
		}
	}
	return words, parts
}

// takesGRPC reports whether the rule's keys are those of gRPC calls, below
// which nothing lies.
func (c *compiled) takesGRPC() bool { return c.has(fromGRPCService) || c.has(fromGRPCMethod) }

// has reports whether some key has a placeholder of a source.
func (c *compiled) has(from source) bool {
	return slices.ContainsFunc(c.keys, func(t template) bool {
		return slices.ContainsFunc(t, func(p keyPart) bool { return p.from == from })
	})
}

// find returns the leaf of a decoded canonical path.
func (t *Table) find(path string) *leaf {
	var v values
	return t.readings[0].tree.find(path, &v)
}

func (l *leaf) has(c *compiled) bool {
	return l != nil && slices.ContainsFunc(l.rules, func(r covering) bool { return r.compiled == c })
}

func nameOf(c *compiled) string {
	if c.rule.Name != "" {
		return "rule " + c.rule.Name
	}
	return fmt.Sprintf("rules[%d]", c.index)
}
