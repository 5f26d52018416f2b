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
	rules := append(broad(), Rule{Name: "u", Paths: []string{"/U/{x:[^A-Z/]+}.{y}", "/U/{x}-{y}/*"}, Keys: keyed("u:{x}:{y}")})
	wide, narrow := mustNew(f, rules...), mustNew(f, accounts()...)
	relaxed := mustNew(f, relaxedRules()...)
	f.Fuzz(func(t *testing.T, target string) {
		checkRelaxed(t, relaxed, target)
		path, _, _ := strings.Cut(target, "?")
		if folded := fold(path, PathPolicy{}); !strings.ContainsAny(folded, "#\x00") && fold(folded, PathPolicy{}) != folded {
			t.Fatalf("fold(%q) = %q is no fixed point: %q", path, folded, fold(folded, PathPolicy{}))
		}
		if strings.HasPrefix(path, "/") && isShallow(path) && foldCanonical(decode(path)) != fold(path, PathPolicy{}) {
			t.Fatalf("%q folds to %q by the short way and to %q by the long one", path, foldCanonical(decode(path)), fold(path, PathPolicy{}))
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
				if c, _ := table.folded.find(fold(path, PathPolicy{}), &v).choose(&question{method: "PUT", override: m.Override}); c != nil && strings.HasPrefix(target, "/") {
					t.Fatalf("%q is not covered, but folds to %q of rule %d", target, fold(path, PathPolicy{}), c.index)
				}
				continue
			}
			checkCovered(t, table, target, &m)
		}
	})
}

// isShallow reports whether a path may be folded the short way.
func isShallow(path string) bool {
	s := examine(path)
	return s.found == 0 && !s.deep
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
	if s := examine(path); s.problem(0) != "" {
		t.Fatalf("%q passes with %s", target, s.problem(0))
	}
	if std, err := url.PathUnescape(path); err != nil || std != m.path {
		t.Fatalf("%q decodes to %q here and to %q by net/url (%v)", path, m.path, std, err)
	}
	key, keyErr := table.Keys(m, byHand("PUT", target, "X-To: 9"), nil)
	var again strings.Builder
	again.Write(appendValue(nil, m.path, true))
	// The folded form is decoded: a `?` in it would part the path from a query.
	small := string(appendValue(nil, fold(path, PathPolicy{}), true))
	for name, other := range map[string]string{
		"escaped again": again.String(),
		"small hex":     lowerHex(path),
		"capitals":      strings.ToUpper(path),
		"small letters": small,
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
			if otherKey, e := table.Keys(&om, r, nil); err == nil && e == nil && keyErr == nil && (name == "escaped again" || name == "small hex") && join(otherKey) != join(key) {
				t.Fatalf("%q has the key %q, but %q has %q", path, key, other, otherKey)
			}
			continue
		}
		// Both pass under two rules (or one under none): no spelling of one
		// folded form may do that.
		if fold(path, PathPolicy{}) == fold(other, PathPolicy{}) {
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

// relaxedRules have each policy somewhere, beside strict rules.
func relaxedRules() []Rule {
	return []Rule{
		{Name: "strict", Paths: []string{"/strict/{x}", "/accounts/{id}/owner"}, Keys: keyed("strict:{path}")},
		{Name: "accounts", Paths: []string{"/accounts/{id}", "/accounts/{id}/*"}, Keys: keyed("account:{id}"), Policy: PathPolicy{CaseInsensitive: true, TrailingSlash: true}},
		{Name: "files", Paths: []string{"/files/*"}, Keys: keyed("files:{*}"), Policy: PathPolicy{EncodedSlash: true, Params: true}},
		{Name: "u", Paths: []string{"/U/{x:[^A-Z/]+}.{y}"}, Keys: keyed("u:{x}:{y}"), Policy: PathPolicy{CaseInsensitive: true, Normalize: true}},
		{Name: "all", Paths: []string{"/*"}, Keys: keyed("all:{path}"), Policy: PathPolicy{Normalize: true, EncodedSlash: true, Params: true, CaseInsensitive: true, TrailingSlash: true}},
	}
}

// checkRelaxed: what is forwarded has nothing that the policy does not allow,
// has the same rule and key when it comes again, and so have the spellings
// that the policy makes one, or they are refused.
func checkRelaxed(t *testing.T, table *Table, target string) {
	t.Helper()
	m, err := table.Match(byHand("PUT", target))
	if err != nil || !m.Covered() {
		return
	}
	path, query, _ := strings.Cut(m.Target, "?")
	policy := m.cover.rule.Policy
	if s := examine(path); s.problem(policy.allows()) != "" {
		t.Fatalf("%q is forwarded as %q, with %s", target, m.Target, s.problem(policy.allows()))
	}
	if m.Target != target && !policy.Normalize {
		t.Fatalf("%q is forwarded as %q without policy", target, m.Target)
	}
	key, keyErr := table.Keys(&m, byHand("PUT", target), nil)
	variants := map[string]string{"again": m.Target}
	if policy.CaseInsensitive {
		variants["capitals"] = strings.ToUpper(path) + "?" + query
	}
	if policy.TrailingSlash {
		variants["a slash more"] = path + "/?" + query
	}
	for name, other := range variants {
		om, err := table.Match(byHand("PUT", other))
		if err != nil && name != "again" {
			continue
		}
		if err != nil || om.Rule != m.Rule {
			t.Fatalf("%q has rule %d and is forwarded as %q; %s, %q, has rule %d (%v)", target, m.Rule, m.Target, name, other, om.Rule, err)
		}
		otherKey, err := table.Keys(&om, byHand("PUT", other), nil)
		if (err == nil) != (keyErr == nil) || join(otherKey) != join(key) {
			t.Fatalf("%q has the key %q, and %s, %q, has %q", target, key, name, other, otherKey)
		}
	}
}

// A fuzz target without seeds tests nothing in an ordinary run.
func TestSeedsAreThere(t *testing.T) {
	for _, name := range []string{"FuzzTarget", "FuzzTemplate", "FuzzBody", "FuzzFilter", "FuzzHeaders", "FuzzQuery", "FuzzHost", "FuzzOwners"} {
		entries, err := os.ReadDir("testdata/fuzz/" + name)
		if err != nil || len(entries) == 0 {
			t.Errorf("%s has no seed corpus: %v", name, err)
		}
	}
}
