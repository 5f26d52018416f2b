package proxy

import (
	"slices"

	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Suspects returns what tells whether a key is one of a rule that is suspect, or
// can be: a write of before the crash may have gone under another key of the very
// resource, which is waited for by whoever comes by this key, under that rule or
// under another one.
func Suspects(table *route.Table, rules []Rule) func(tokenstore.Key) bool {
	if !slices.ContainsFunc(rules, func(r Rule) bool { return r.Suspect }) {
		return func(tokenstore.Key) bool { return false }
	}
	return func(key tokenstore.Key) bool {
		return slices.ContainsFunc(table.Owners(key), func(i int) bool { return rules[i].Suspect })
	}
}
