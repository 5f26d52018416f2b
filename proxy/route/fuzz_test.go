package route

import (
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
)

// FuzzTarget throws targets at rules with and without a broad one.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{
		"/accounts/42", "/accounts/4%2F2", "/ACCOUNTS/42", "//accounts/42/", "/accounts/%c3%a9?x", "/accounts/42%3Bx", "/accounts/a/../b",
		"http://h/accounts/1", "/transfer?from=1&_method=x", "*", "/\\accounts/42#x", "/accounts/%25zz", "/u/K.x", "/é", "/%E2%84%AA",
	} {
		f.Add(seed)
	}
	rules := append(broad(), Rule{Name: "u", Paths: []string{"/U/{x:[^A-Z/]+}.{y}", "/U/{x}-{y}/*"}, Key: "u:{x}:{y}"})
	wide, narrow := mustNew(f, rules...), mustNew(f, accounts()...)
	f.Fuzz(func(t *testing.T, target string) {
		path, _, _ := strings.Cut(target, "?")
		if folded := fold(path); !strings.ContainsAny(folded, "#\x00") && fold(folded) != folded {
			t.Fatalf("fold(%q) = %q is no fixed point: %q", path, folded, fold(folded))
		}
		if strings.HasPrefix(path, "/") && !examine(path).escaped && foldCanonical(path) != fold(path) {
			t.Fatalf("%q folds to %q by the short way and to %q by the long one", path, foldCanonical(path), fold(path))
		}
		for _, table := range []*Table{wide, narrow} {
			r := byHand("PUT", target, "X-To: 9")
			m, err := table.Match(r)
			var refusal *Refusal
			if err != nil {
				if !errors.As(err, &refusal) || refusal.Detail == "" {
					t.Fatalf("%q: the error %v is no good *Refusal", target, err)
				}
				continue
			}
			if m.Target == "" || m.Target[0] != '/' {
				t.Fatalf("%q would be forwarded as %q", target, m.Target)
			}
			if !m.Covered() {
				// Then nothing fenced may be what it folds to.
				var v values
				if c, _ := table.folded.find(fold(path), &v).choose("PUT", m.Override); c != nil && strings.HasPrefix(target, "/") {
					t.Fatalf("%q is not covered, but folds to %q of rule %d", target, fold(path), c.rule)
				}
				continue
			}
			checkCovered(t, table, target, &m)
		}
	})
}

// checkCovered: a covered path is canonical, so that decoding it and escaping
// it again gives a target with the same rule and key, and so do other
// spellings of its folded form, or they are refused.
func checkCovered(t *testing.T, table *Table, target string, m *Match) {
	t.Helper()
	if m.Target != target {
		t.Fatalf("%q would be forwarded as %q", target, m.Target)
	}
	path, query, _ := strings.Cut(target, "?")
	if s := examine(path); s.problem != "" {
		t.Fatalf("%q passes with %s", target, s.problem)
	}
	if std, err := url.PathUnescape(path); err != nil || std != m.path {
		t.Fatalf("%q decodes to %q here and to %q by net/url (%v)", path, m.path, std, err)
	}
	key, keyErr := table.Key(m, byHand("PUT", target, "X-To: 9"))
	var again strings.Builder
	again.Write(appendValue(nil, m.path, true))
	for name, other := range map[string]string{
		"escaped again": again.String(),
		"small hex":     lowerHex(path),
		"capitals":      strings.ToUpper(path),
		"small letters": fold(path),
		"a slash more":  path + "/",
	} {
		r := byHand("PUT", other+"?"+query, "X-To: 9")
		om, err := table.Match(r)
		if name == "escaped again" || name == "small hex" {
			if err != nil || om.path != m.path || om.Rule != m.Rule {
				t.Fatalf("%q passes with rule %d, but %q has rule %d, error %v", path, m.Rule, other, om.Rule, err)
			}
		}
		if err != nil || om.Rule == m.Rule {
			if otherKey, e := table.Key(&om, r); err == nil && e == nil && keyErr == nil && (name == "escaped again" || name == "small hex") && otherKey != key {
				t.Fatalf("%q has the key %q, but %q has %q", path, key, other, otherKey)
			}
			continue
		}
		// Both pass under two rules (or one under none): no spelling of one
		// folded form may do that.
		if fold(path) == fold(other) {
			t.Fatalf("%q passes with rule %d and %q with rule %d", path, m.Rule, other, om.Rule)
		}
	}
}

func lowerHex(path string) string {
	b := []byte(path)
	for i := range b {
		if b[i] == '%' && i+2 < len(b) {
			copy(b[i:i+3], strings.ToLower(string(b[i:i+3])))
		}
	}
	return string(b)
}

// FuzzTemplate: whatever is accepted can be filled, and no panic.
func FuzzTemplate(f *testing.F) {
	for _, seed := range [][2]string{
		{"/a/{id}", "account:{id}"}, {"/a/{id:[0-9]{2}}/*", "{id}/{*}"}, {"/*", "{host}:{method}:{path}"}, {"/a", "{query.x}|{header.X-To}"},
		{"/a/{x}.{y}", "{x}-{y}"}, {`/{a:\{\}}`, "{a}"}, {"/{a:(?i:B)|c}", "100%"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, path, key string) {
		if strings.Contains(path, "{") && len(path) > 60 {
			return // big expressions are slow, and not the subject
		}
		table, err := New([]Rule{{Name: "r", Paths: []string{path}, Key: key}}, Options{})
		var errs Errors
		if err != nil {
			if !errors.As(err, &errs) {
				t.Fatalf("the error %v is no Errors", err)
			}
			return
		}
		r := byHand("PUT", string(appendValue(nil, path, true)), "X-To: 1")
		m, err := table.Match(r)
		if err != nil || !m.Covered() {
			return
		}
		if k, err := table.Key(&m, r); err == nil && (k == "" || len(k) > 1024) {
			t.Fatalf("%q, %q make the key %q", path, key, k)
		}
	})
}

// A fuzz target without seeds tests nothing in an ordinary run.
func TestSeedsAreThere(t *testing.T) {
	for _, name := range []string{"FuzzTarget", "FuzzTemplate"} {
		entries, err := os.ReadDir("testdata/fuzz/" + name)
		if err != nil || len(entries) == 0 {
			t.Errorf("%s has no seed corpus: %v", name, err)
		}
	}
}
