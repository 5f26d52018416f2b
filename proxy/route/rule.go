package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Rule says which requests are fenced, and by which resource key.
type Rule struct {
	// Name stands in errors and answers.
	Name string
	// Paths are one or more patterns in chi's syntax, compared with the
	// canonical path, percent-decoded. A rule covers the paths of each.
	Paths []string
	// Methods that the rule covers. Empty means every method that is not safe
	// (GET, HEAD, OPTIONS and TRACE are). GET covers HEAD too. Letter case
	// does not count: some upstreams take `put` for PUT.
	Methods []string
	// Key is the template of the resource key.
	Key string
	// NoKey says that the rule covers its paths without a fence (`token:
	// none`): Key is left out and Table.Key is never asked.
	NoKey bool
	// Headers carry the rule's tokens and holder. They have one spelling, and
	// are safe from Connection and trailers, as the headers in keys are.
	Headers []string
	// Format of the rule's tokens; only Fingerprint looks at it.
	Format tokenstore.Format
}

// Options are what all rules share.
type Options struct {
	// Headers are fencing and holder headers beside those of the rules.
	Headers []string
}

// RuleError is one error in the rules.
type RuleError struct {
	Rule    int    // index of the rule, or -1 for Options
	Setting string // in the rule, as in the configuration: `path[0]`, `methods`, `key`, `header`
	Msg     string // what is wrong, and what would be right
}

func (e *RuleError) Error() string {
	if e.Rule < 0 {
		return e.Setting + ": " + e.Msg
	}
	return fmt.Sprintf("rules[%d].%s: %s", e.Rule, e.Setting, e.Msg)
}

// Errors are all errors of a set of rules, in the order of the rules.
type Errors []*RuleError

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the single errors to errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, err := range e {
		all[i] = err
	}
	return all
}

func (e *Errors) add(rule int, setting string, err error) {
	if err != nil {
		*e = append(*e, &RuleError{rule, setting, err.Error()})
	}
}

// IsSafe reports whether a method is one that asks for no change: exactly GET,
// HEAD, OPTIONS or TRACE. Every other method is a write: unknown ones, those
// in small letters, and all of WebDAV.
func IsSafe(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return true
	}
	return false
}

// compiled is a rule, read.
type compiled struct {
	rule     Rule
	patterns []*pattern // nil where a pattern is bad
	methods  methods
	key      template
}

func compile(i int, rule Rule, errs *Errors) *compiled {
	c := &compiled{rule: rule, patterns: make([]*pattern, len(rule.Paths))}
	if len(rule.Paths) == 0 {
		errs.add(i, "path", fmt.Errorf("the rule has no path; write a pattern like /accounts/{id}"))
	}
	for j, text := range rule.Paths {
		p, err := parsePattern(text)
		errs.add(i, fmt.Sprintf("path[%d]", j), err)
		c.patterns[j] = p
	}
	var err error
	c.methods, err = parseMethods(rule.Methods)
	errs.add(i, "methods", err)
	if rule.NoKey {
		if rule.Key != "" {
			errs.add(i, "key", fmt.Errorf("a rule with token: none makes no key; leave it out"))
		}
		return c
	}
	c.key, err = parseTemplate(rule.Key)
	errs.add(i, "key", err)
	if err != nil {
		return c
	}
	for _, p := range c.patterns {
		if p != nil {
			_, err := c.key.bind(p)
			errs.add(i, "key", err)
		}
	}
	return c
}

// methods are a rule's methods in capital letters; nil is every write.
type methods []string

func parseMethods(names []string) (methods, error) {
	var ms methods
	for _, name := range names {
		m := strings.ToUpper(name)
		switch {
		case !isToken(name):
			return nil, fmt.Errorf("%q is no method", name)
		case m == "CONNECT" || m == "PRI":
			return nil, fmt.Errorf("%s never passes the proxy; leave it out", m)
		}
		ms = append(ms, m)
		if m == "GET" {
			ms = append(ms, "HEAD")
		}
	}
	return ms, nil
}

// covers reports whether the rule covers a method, as the client wrote it.
func (ms methods) covers(method string) bool {
	if ms == nil {
		return !IsSafe(method)
	}
	return slices.ContainsFunc(ms, func(m string) bool { return strings.EqualFold(m, method) })
}

// safe reports whether the rule covers requests with a safe method.
func (ms methods) safe() bool { return slices.ContainsFunc(ms, IsSafe) }

// common returns a method that both cover, or "".
func (ms methods) common(other methods) string {
	switch {
	case ms == nil && other == nil:
		return "every method that is not safe"
	case ms == nil:
		return other.common(ms)
	}
	for _, m := range ms {
		if other.covers(m) {
			return m
		}
	}
	return ""
}

// has is covers without folding letter case.
func (ms methods) has(method string) bool { return slices.Contains(ms, method) }
