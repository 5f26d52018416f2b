package route

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
)

// expr is the regular expression of a path parameter.
type expr struct {
	text   string
	folded string // matches lower(s) for every s that text matches
}

// parseExpr reads an expression. insideSegment says that a byte of the same
// segment follows the parameter.
func parseExpr(text string, insideSegment bool) (*expr, error) {
	if text == "" {
		return nil, errors.New("is empty; leave the : out")
	}
	// The text is read alone first: wrapped in our group, `a)|(b` would
	// compile and mean something else.
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("is not valid: %w", err)
	}
	// chi looks for the byte behind the parameter beyond the next slash too.
	if insideSegment && matchesSlash(tree) {
		return nil, errors.New("may match a /; write a class without it, like [^/]+")
	}
	if err := foldTree(tree); err != nil {
		return nil, err
	}
	e := &expr{text: text, folded: tree.String()}
	for _, folded := range []bool{false, true} {
		wrapped := e.forChi(folded)
		if _, err := regexp.Compile(wrapped); err != nil {
			return nil, fmt.Errorf("is not valid: %w", err)
		}
		if closing("{"+wrapped+"}") != len(wrapped)+1 {
			return nil, errors.New("has braces that do not pair")
		}
	}
	return e, nil
}

// forChi anchors the expression as a whole; chi alone would make ^a|b$ of a|b.
func (e *expr) forChi(folded bool) string {
	if folded {
		return "^(?:" + e.folded + ")$"
	}
	return "^(?:" + e.text + ")$"
}

func matchesSlash(t *syntax.Regexp) bool {
	switch t.Op {
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return true
	case syntax.OpLiteral:
		return slices.Contains(t.Rune, '/')
	case syntax.OpCharClass:
		return inClass(t.Rune, '/')
	}
	return slices.ContainsFunc(t.Sub, matchesSlash)
}

func inClass(ranges []rune, r rune) bool {
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] <= r && r <= ranges[i+1] {
			return true
		}
	}
	return false
}

// foldTree changes t so that it matches the folded spelling of everything that
// it matched before. It may match more: then a write is refused as an alias
// that is none. It must not match less, or an alias would go by unseen; that
// is why (?i) does not do: (?i:[^A-Z]) matches no small letter at all.
func foldTree(t *syntax.Regexp) error {
	switch t.Op {
	case syntax.OpLiteral:
		for i, r := range t.Rune {
			t.Rune[i] = lowerRune(r)
		}
		t.Flags &^= syntax.FoldCase
	case syntax.OpCharClass:
		var extra []rune
		for _, r := range capitals() {
			if l := lowerRune(r); inClass(t.Rune, r) && !inClass(t.Rune, l) {
				extra = append(extra, l)
			}
		}
		if extra == nil {
			return nil
		}
		slices.Sort(extra)
		more := &syntax.Regexp{Op: syntax.OpCharClass}
		for _, r := range slices.Compact(extra) {
			more.Rune = append(more.Rune, r, r)
		}
		class := *t
		class.Rune = slices.Clone(t.Rune) // a short one lies inside *t itself
		*t = syntax.Regexp{Op: syntax.OpAlternate, Flags: t.Flags, Sub: []*syntax.Regexp{&class, more}}
	case syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return errors.New(`has \b or \B, whose sense depends on letter case; it is anchored at both ends anyway`)
	default:
		for _, sub := range t.Sub {
			if err := foldTree(sub); err != nil {
				return err
			}
		}
	}
	return nil
}

// capitals are all runes that lowerRune changes.
var capitals = sync.OnceValue(func() (all []rune) {
	for r := range rune(0x20000) {
		if lowerRune(r) != r {
			all = append(all, r)
		}
	}
	return all
})
