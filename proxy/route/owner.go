package route

import (
	"regexp"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Owners returns the rules, by their index, that can make key, in their
// order; none where no rule can.
func (t *Table) Owners(key tokenstore.Key) (rules []int) {
	for _, c := range t.rules {
		for _, form := range c.forms {
			if form.MatchString(string(key)) {
				rules = append(rules, c.index)
				break
			}
		}
	}
	return rules
}

// form is what the keys of the template look like.
func (t template) form() *regexp.Regexp {
	const value, slash = `(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})+`, `(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+`
	var b strings.Builder
	b.WriteString(`\A`)
	for _, part := range t {
		switch {
		case part.from == fromLiteral:
			b.WriteString(regexp.QuoteMeta(part.text))
		case part.from == fromPath:
			b.WriteString("/(?:" + slash + ")?")
		case part.from.keepsSlash():
			b.WriteString(slash)
		default:
			b.WriteString(value)
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}
