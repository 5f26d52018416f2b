package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// mutant is the code with one rule taken out.
type mutant struct {
	name  string // a word for -only: the story's letter where there is one
	rule  string // the protocol's number, and what is left out
	edits []edit
	pkg   string // of the test, like ./proxy/gate
	test  string // that must fail, like TestStoryA or TestOutcome/half a body
	// hangs, where it is not 0, says that the test may also fail by hanging:
	// then, and only then, its timeout counts as killed, and it is this long.
	// It is many times what the test takes.
	hangs time.Duration
}

// edit replaces a text that stands exactly once in a file.
type edit struct {
	file     string // from the module's root, with slashes
	old, new string
}

// all returns every mutant, in the order of the tables.
func all() []mutant {
	return slices.Concat(decisions(), waiting(), tickets(), operator(), unordered(), embeddedStore(), powerCuts(), memoryStore(), sharedStore(), sharedUnordered(), engines(),
		hop(), outcomes(), handler(), reload(), leases(), limits(), tokens(), tokenOrder(), paths(), normal())
}

// one is a mutant of a single edit.
func one(name, rule, file, old, new, pkg, test string) mutant {
	return mutant{name: name, rule: rule, edits: []edit{{file, old, new}}, pkg: pkg, test: test}
}

// apply returns text with the edit made.
func (e edit) apply(text string) (string, error) {
	switch n := strings.Count(text, e.old); {
	case e.old == "" || e.old == e.new:
		return "", fmt.Errorf("the edit of %s changes nothing", e.file)
	case n == 0:
		return "", fmt.Errorf("the mutant no longer applies: %s has no text\n%s", e.file, e.old)
	case n > 1:
		return "", fmt.Errorf("the mutant no longer applies: %s has %d times the text\n%s", e.file, n, e.old)
	}
	return strings.Replace(text, e.old, e.new, 1), nil
}

// pattern is the -run expression of exactly this test.
func pattern(test string) string {
	parts := strings.Split(printed(test), "/")
	for i, p := range parts {
		parts[i] = "^" + quote(p) + "$"
	}
	return strings.Join(parts, "/")
}

// quote is regexp.QuoteMeta without the slash, which splits -run expressions.
func quote(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// printed is a test's name as go test prints it.
func printed(test string) string { return strings.ReplaceAll(test, " ", "_") }
