package route

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// The folded expression must match the folded spelling of everything that the
// expression matches, or an alias goes by unseen.
func TestFoldedExpressionMatchesNoLess(t *testing.T) {
	samples := []string{
		"abc", "ABC", "aBc", "x1", "X1", "ÄÖ", "äö", "\u212a", "ſ", "Σ", "ς", "123", "a-b", "A_B", "\xff", "{x}", "foo", "FOO", "aa", "AAA",
	}
	for _, text := range []string{
		`[0-9]+`, `[A-Z]+`, `[^A-Z]+`, `[^a-z]+`, `(?-i:ABC)`, `(?i:abc)`, `ABC|x1`, `[[:upper:]]+`, `\p{Lu}+`, `\P{Lu}+`, `[^\x{4b}]+`,
		`.+`, `\w+`, `\W+`, `[@-_]+`, `A{2,3}`, `\{x\}`, `(A|a)B?[^b]`, `(?U)A+`, `^ABC$`, `(?s).`, `[^/]+`, `Ä.`,
	} {
		e, err := parseExpr(text, false)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		exact, folded := regexp.MustCompile(e.forChi(false)), regexp.MustCompile(e.forChi(true))
		for _, s := range samples {
			if exact.MatchString(s) && !folded.MatchString(lower(s)) {
				t.Errorf("%s matches %q, but %s does not match %q", text, s, e.folded, lower(s))
			}
		}
	}
}

// Folding twice is folding once, and letters that differ in case fold alike.
func TestLowerRune(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) {
		l := lowerRune(r)
		if lowerRune(l) != l || lowerRune(unicode.SimpleFold(r)) != l {
			t.Fatalf("%U folds to %U, which folds to %U; its other case %U to %U", r, l, lowerRune(l), unicode.SimpleFold(r), lowerRune(unicode.SimpleFold(r)))
		}
		if r < 0x80 && string(l) != strings.ToLower(string(r)) {
			t.Fatalf("%U folds to %U", r, l)
		}
	}
}

// Every spelling of a fenced path is an alias, also where an expression tells
// letter case apart.
func TestAliasThroughExpression(t *testing.T) {
	for _, expr := range []string{`[^A-Z]+`, `(?-i:abc)`, `[a-z]+`, `.+`} {
		table := mustNew(t,
			Rule{Name: "narrow", Paths: []string{"/u/{id:" + expr + "}"}, Keys: keyed("u:{id}")},
			Rule{Name: "wide", Paths: []string{"/*"}, Keys: keyed("{path}")})
		for target, want := range map[string]string{"/u/abc": "u:abc", "/U/abc": "path-alias", "/u/abc/": "path-alias"} {
			if got, detail := result(t, table, byHand("PUT", target)); got != want {
				t.Errorf("%s: %s is %s (%s), want %s", expr, target, got, detail, want)
			}
		}
	}
	table := mustNew(t,
		Rule{Name: "narrow", Paths: []string{"/u/{id:[A-Z]+}"}, Keys: keyed("u:{id}")},
		Rule{Name: "plain", Paths: []string{"/u/{name}"}, Keys: keyed("n:{name}")})
	// In doubt closed: /u/abc is no alias of anything, but the folded form
	// cannot tell it from /u/ABC.
	for target, want := range map[string]string{"/u/ABC": "u:ABC", "/u/abc": "path-alias", "/u/a1": "n:a1"} {
		if got, _ := result(t, table, byHand("PUT", target)); got != want {
			t.Errorf("%s is %s, want %s", target, got, want)
		}
	}
}
