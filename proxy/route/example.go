package route

import (
	"regexp/syntax"
	"strings"
)

// exampleValues are what parameters stand for in examples: so different that a
// regular expression that takes them all takes nearly everything.
var exampleValues = [...]string{"42", "a", "Z", "x-y_z", "é", "a.b", "~", "01890c2e-6f5a-7cc1-98a1-2f0f5cc0a1b2", "it's", "a b"}

// exampleRests are the same for a trailing *.
var exampleRests = [...]string{"", "42", "a/b"}

// examples are decoded paths that the pattern is meant to match. Where it has
// an expression, not all of them need to.
func (p *pattern) examples() []string {
	var all []string
	for k := range exampleValues {
		var b strings.Builder
		for _, part := range p.parts {
			switch {
			case part.kind == partLiteral:
				b.WriteString(part.text)
			case part.kind == partRest:
				b.WriteString(exampleRests[k%len(exampleRests)])
			case part.expr == nil:
				b.WriteString(exampleValues[k])
			default:
				if tree, err := syntax.Parse(part.expr.text, syntax.Perl); err == nil {
					writeExample(&b, tree, k)
				}
			}
		}
		all = append(all, b.String())
	}
	return all
}

// writeExample writes a text that the expression matches, another one for
// another k where that is easily had.
func writeExample(b *strings.Builder, t *syntax.Regexp, k int) {
	switch t.Op {
	case syntax.OpLiteral:
		b.WriteString(string(t.Rune))
	case syntax.OpCharClass:
		if n := len(t.Rune) / 2; n > 0 {
			lo, hi := t.Rune[k%n*2], t.Rune[k%n*2+1]
			b.WriteRune(min(max(lo, '0')+rune(k), hi))
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteString(exampleValues[k%3][:1])
	case syntax.OpAlternate:
		writeExample(b, t.Sub[k%len(t.Sub)], k)
	case syntax.OpStar, syntax.OpQuest:
		if k%2 == 1 {
			writeExample(b, t.Sub[0], k)
		}
	case syntax.OpRepeat:
		for range min(max(t.Min, k%2), 100) {
			writeExample(b, t.Sub[0], k)
		}
	default: // concatenations, groups, and what stands for no text
		for _, sub := range t.Sub {
			writeExample(b, sub, k)
		}
	}
}
