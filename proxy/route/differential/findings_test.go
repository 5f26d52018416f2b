package differential

import (
	"slices"
	"strings"
	"testing"
)

// maxShown is how many violations are told of one reading.
const maxShown = 8

// findings are the violations of one reading under all tables, each once.
type findings struct {
	all    []violation
	tables map[string][]string // by the violation in words
}

func (f *findings) add(table string, found []violation) {
	if f.tables == nil {
		f.tables = map[string][]string{}
	}
	for _, v := range found {
		words := v.String()
		if f.tables[words] == nil {
			f.all = append(f.all, v)
		}
		f.tables[words] = append(f.tables[words], table)
	}
}

// report fails the test with the smallest of them.
func (f *findings) report(t *testing.T) {
	t.Helper()
	slices.SortStableFunc(f.all, func(a, b violation) int { return a.size() - b.size() })
	for _, v := range f.all[:min(len(f.all), maxShown)] {
		words := v.String()
		t.Errorf("%s\n\twith %s", words, strings.Join(f.tables[words], "; "))
	}
	if len(f.all) > maxShown {
		t.Errorf("and %d more violations", len(f.all)-maxShown)
	}
}
