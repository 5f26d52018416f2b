package route

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
)

// compiled is a rule, read.
type compiled struct {
	rule     Rule
	index    int
	patterns []*pattern // nil where a pattern is bad
	methods  methods
	keys     []template
	forms    []*regexp.Regexp // what the keys look like
	body     source           // how its templates read the body: fromJSON, fromForm, fromXML, or fromLiteral for not at all
	reading  int              // of its policy, in Table.readings
}

func compile(i int, rule Rule, errs *Errors) *compiled {
	c := &compiled{rule: rule, index: i, patterns: make([]*pattern, len(rule.Paths))}
	if len(rule.Paths) == 0 {
		errs.add(i, "path", errors.New("the rule has no path; write a pattern like /accounts/{id}"))
	}
	for j, text := range rule.Paths {
		p, err := parsePattern(text, rule.Policy)
		errs.add(i, fmt.Sprintf("path[%d]", j), err)
		c.patterns[j] = p
	}
	var err error
	c.methods, err = parseMethods(rule.Methods)
	errs.add(i, "methods", err)
	c.readKeys(errs)
	return c
}

// readKeys reads the templates and finds their parameters in the patterns.
func (c *compiled) readKeys(errs *Errors) {
	switch n := len(c.rule.Keys); {
	case c.rule.NoKey && n > 0:
		errs.add(c.index, "key", errors.New("a rule with token: none makes no key; leave it out"))
		return
	case c.rule.NoKey && c.rule.FenceReads:
		errs.add(c.index, "reads", errors.New("a rule with token: none has no fence for reads; leave reads: fence out"))
		return
	case c.rule.NoKey:
		return
	case n == 0:
		errs.add(c.index, "key", errors.New("the rule has no key; write a template like account:{id}"))
		return
	case n > MaxKeys:
		errs.add(c.index, "keys", fmt.Errorf("the rule has %d keys, at most %d are allowed", n, MaxKeys))
		return
	}
	c.keys = make([]template, len(c.rule.Keys))
	for k, spec := range c.rule.Keys {
		setting := c.setting(k, "key")
		t, err := parseTemplate(spec.Key)
		errs.add(c.index, setting, err)
		if err != nil {
			continue
		}
		c.keys[k] = t
		c.forms = append(c.forms, t.form())
		for _, p := range c.patterns {
			if p != nil {
				_, err := t.bind(p)
				errs.add(c.index, setting, err)
			}
		}
		errs.add(c.index, setting, c.readBody(t))
		if c.rule.FenceReads && spec.Header == "" {
			errs.add(c.index, c.setting(k, "header"), errors.New("the key names no header, so that nobody could tell which reads to fence; name the one that carries its token"))
		}
	}
}

// readBody holds the rule to one reading of the body.
func (c *compiled) readBody(t template) error {
	for _, part := range t {
		if !part.from.inBody() {
			continue
		}
		if c.body != fromLiteral && c.body != part.from {
			return fmt.Errorf("the placeholder %s reads the body as %s, and another one of the rule as %s; a body has one form only, so make two rules", part.text, part.from, c.body)
		}
		c.body = part.from
	}
	return nil
}

// setting is the configuration's name of what key k says.
func (c *compiled) setting(k int, name string) string {
	if len(c.rule.Keys) == 1 {
		return name
	}
	return fmt.Sprintf("keys[%d].%s", k, name)
}

// carries reports whether a request has one of the rule's token headers, in
// any spelling that folds to it: a misspelt token is refused later, but it
// must not make a fenced read one that nobody looks at.
func (c *compiled) carries(h http.Header, misspelt bool) bool {
	for _, spec := range c.rule.Keys {
		if _, ok := h[http.CanonicalHeaderKey(spec.Header)]; ok {
			return true
		}
		if !misspelt {
			continue
		}
		for name := range h {
			if foldsTo(name, foldName(spec.Header)) {
				return true
			}
		}
	}
	return false
}

// sharesHeader reports whether some header carries tokens of both rules.
func (c *compiled) sharesHeader(other *compiled) bool {
	for _, spec := range c.rule.Keys {
		for _, theirs := range other.rule.Keys {
			if http.CanonicalHeaderKey(spec.Header) == http.CanonicalHeaderKey(theirs.Header) {
				return true
			}
		}
	}
	return false
}

// sameKeys reports whether two rules have the same templates in the same order.
func (c *compiled) sameKeys(other *compiled) bool {
	return slices.Equal(c.rule.Keys, other.rule.Keys)
}
