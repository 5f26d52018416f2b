package route

import (
	"fmt"
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
	// Keys are the resources that a request of the rule names: 1 to MaxKeys,
	// and none where NoKey is set.
	Keys []KeySpec
	// NoKey says that the rule covers its paths without a fence (`token:
	// none`): Keys are left out and Table.Keys is never asked.
	NoKey bool
	// Headers are the rule's headers beside those of Keys, as the holder's.
	// They have one spelling, and are safe from Connection and trailers, as
	// the headers in Keys and in their templates are.
	Headers []string
	// Policy relaxes the canonical form for the rule's paths.
	Policy PathPolicy
	// FenceReads (`reads: fence`) says that a safe request on the rule's paths
	// that carries one of the headers of Keys is covered too, as Match.Read.
	FenceReads bool
	// WebSocket says that the rule covers websocket handshakes on its paths,
	// whatever its Methods are, as Match.Upgrade.
	WebSocket bool
	// Format of the rule's tokens; only Fingerprint looks at it.
	Format tokenstore.Format
}

// MaxKeys is how many keys one rule may have.
const MaxKeys = 16

// KeySpec is one resource that a request names.
type KeySpec struct {
	// Key is the template of its key.
	Key string
	// Header carries its token; "" where that is one of Options.Headers.
	Header string
}

// Options are what all rules share.
type Options struct {
	// Headers are fencing and holder headers beside those of the rules.
	Headers []string
}

// RuleError is one error in the rules.
type RuleError struct {
	Rule int // index of the rule, or -1 for Options
	// Setting of the rule, as in the configuration: `path[0]`, `methods`, `key`,
	// `header`; `keys[1].key` and `keys[1].header` where Rule.Keys has several
	Setting string
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
