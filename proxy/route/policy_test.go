package route

import (
	"strings"
	"testing"
)

// Each policy relaxes one thing and nothing else.
func TestPolicies(t *testing.T) {
	const notCanonical, alias = "path-not-canonical", "path-alias"
	relaxed := func(policy PathPolicy) []Rule {
		return []Rule{
			{Name: "files", Paths: []string{"/Files/{name}", "/Files/{name}/*"}, Keys: keyed("file:{name}"), Policy: policy},
			{Name: "tree", Paths: []string{"/tree/*"}, Keys: keyed("tree:{*}"), Policy: policy},
			{Name: "static", Paths: []string{"/static"}, Keys: keyed("{path}"), Policy: policy},
		}
	}
	slash := PathPolicy{EncodedSlash: true}
	params := PathPolicy{Params: true}
	normal := PathPolicy{Normalize: true}
	anyCase := PathPolicy{CaseInsensitive: true}
	trailing := PathPolicy{TrailingSlash: true}
	for _, test := range []struct {
		policy PathPolicy
		target string
		want   string
		sent   string // to the upstream, where it is not the target
	}{
		{slash, "/Files/a%2Fb", "file:a%2Fb", ""},
		{slash, "/Files/a%2fb/x", "file:a%2Fb", ""},
		{slash, "/Files/a/b", "file:a", ""},
		{slash, "/tree/a%2Fb/c", "tree:a%2Fb/c", ""}, // not that of /tree/a/b/c
		{slash, "/tree/a/b/c", "tree:a/b/c", ""},
		{slash, "/tree/100%25/%2F", "tree:100%25/%2F", ""},
		{slash, "/tree/%252F", notCanonical, ""},
		{slash, "/Files%2Fa", notCanonical, ""},
		{slash, "/tree/a%2F..%2Fb", notCanonical, ""},
		{slash, "/tree/..%2fb", notCanonical, ""},
		{slash, "/tree/%2e%2e%2fb", notCanonical, ""},
		{slash, "/tree/a%5Cb", notCanonical, ""},
		{slash, "/tree/a;b", notCanonical, ""},
		{slash, "/tree//a", notCanonical, ""},
		{slash, "/FILES/a%2Fb", alias, ""},
		{slash, "/Files/a%2Fb%3Bx", alias, ""},
		{slash, "/Files/a%c0%afb", notCanonical, ""},
		{slash, "/static/", alias, ""},

		{params, "/Files/a;v=1", "file:a%3Bv%3D1", ""},
		{params, "/Files/a%3Bv=1", "file:a%3Bv%3D1", ""},
		{params, "/Files/a;v=1/x", "file:a%3Bv%3D1", ""},
		{params, "/tree/a;x/b", "tree:a%3Bx/b", ""},
		{params, "/tree/..;x/b", notCanonical, ""},
		{params, "/tree/.;/b", notCanonical, ""},
		{params, "/Files;x/a", notCanonical, ""},
		{params, "/tree/a%2Fb", notCanonical, ""},
		{params, "/files/a;v=1", alias, ""},

		{normal, "/Files/a", "file:a", ""},
		{normal, "/Files/%61?q=%61", "file:a", "/Files/a?q=%61"},
		{normal, "/x/..//Files/./%7e%c3%a9/", "file:~%C3%A9", "/Files/~%C3%A9/"},
		{normal, "/tree/a/../b/é", "tree:b/%C3%A9", "/tree/b/%C3%A9"},
		{normal, "/tree/a/%2E%2e", alias, ""}, // /tree is on no rule's path
		{normal, "/tree/a/b/%2E%2e", "tree:a/", "/tree/a/"},
		{normal, "http://example.com/tree/a?b", "tree:a", "/tree/a?b"},
		{normal, "/../../tree/a", "tree:a", "/tree/a"},
		{normal, "/tree//../tree/a", notCanonical, ""}, // servers go two ways
		{normal, "/tree/a%2Fb", notCanonical, ""},
		{normal, "/tree/a\\b", notCanonical, ""},
		{normal, "/tree/./a;b", notCanonical, ""},
		{normal, "/tree/./a#b", notCanonical, ""},
		{normal, "/tree/./a?b#c", notCanonical, ""},
		{normal, "/tree/./%00", notCanonical, ""},
		{normal, "/tree/./%zz", notCanonical, ""},
		{normal, "/tree/%25%34%31", notCanonical, ""}, // comes out as %2541
		{normal, "/FILES//a", alias, ""},
		{normal, "/FILES/a", alias, ""},
		{normal, "/static//", alias, ""},

		{anyCase, "/FILES/ABC", "file:abc", ""},
		{anyCase, "/files/abc", "file:abc", ""},
		{anyCase, "/Files/%C3%89", "file:%C3%A9", ""},
		{anyCase, "/TREE/A/b", "tree:a/b", ""},
		{anyCase, "/STATIC", "%2Fstatic", ""},
		{anyCase, "/STATIC/", alias, ""},
		{anyCase, "/FILES/a%2Fb", notCanonical, ""},
		{anyCase, "/FILES//a", notCanonical, ""},
		{anyCase, "/FILES/%61", notCanonical, ""},
		{anyCase, "/FILES/a%3Bx", alias, ""},

		{trailing, "/static/", "%2Fstatic", ""},
		{trailing, "/static", "%2Fstatic", ""},
		{trailing, "/tree/a/", "tree:a", ""},
		{trailing, "/Files/a/", "file:a", ""},
		{trailing, "/STATIC", alias, ""},
		{trailing, "/static//", notCanonical, ""},

		{PathPolicy{EncodedSlash: true, CaseInsensitive: true}, "/TREE/A%2FB", "tree:a%2Fb", ""},
		{PathPolicy{EncodedSlash: true, CaseInsensitive: true}, "/files/A%2fB", "file:a%2Fb", ""},
		{PathPolicy{TrailingSlash: true, CaseInsensitive: true}, "/STATIC/", "%2Fstatic", ""},
		{PathPolicy{Normalize: true, Params: true, EncodedSlash: true}, "/tree/./%61;b%2fc", "tree:a%3Bb%2Fc", "/tree/a;b%2Fc"},
	} {
		t.Run(test.policy.String()+" "+test.target, func(t *testing.T) {
			table := mustNew(t, relaxed(test.policy)...)
			want := strings.Replace(test.want, "%2Fstatic", "/static", 1)
			r := byHand("PUT", test.target)
			if got, detail := result(t, table, r); got != want {
				t.Fatalf("got %s (%s), want %s", got, detail, want)
			}
			sent := test.sent
			if sent == "" {
				sent = test.target
			}
			if m, err := table.Match(r); err == nil && m.Target != sent && want != "key-unresolvable" {
				t.Fatalf("%q would be forwarded, want %q", m.Target, sent)
			}
			// Without the policy none of it passes that is not canonical.
			strict := mustNew(t, relaxed(PathPolicy{})...)
			if s := examine(test.target); s.found != 0 {
				if got, _ := result(t, strict, r); got != notCanonical && got != alias {
					t.Fatalf("without the policy it is %s", got)
				}
			}
		})
	}
}

// A policy holds for the paths of its rule alone.
func TestPolicyBesideOthers(t *testing.T) {
	const notCanonical, alias = "path-not-canonical", "path-alias"
	account := Rule{Name: "accounts", Paths: []string{"/accounts/{id}"}, Keys: keyed("account:{id}")}
	all := Rule{Name: "all", Paths: []string{"/*"}, Keys: keyed("all:{*}")}
	one := Rule{Name: "one", Paths: []string{"/*"}, Keys: keyed("one")}
	deletes := Rule{Name: "deletes", Paths: []string{"/*"}, Methods: []string{"DELETE"}, Keys: keyed("one")}
	with := func(r Rule, p PathPolicy) Rule { r.Policy = p; return r }
	everything := PathPolicy{EncodedSlash: true, Params: true, Normalize: true, CaseInsensitive: true, TrailingSlash: true}
	for _, test := range []struct {
		name   string
		rules  []Rule
		target string
		want   string
	}{
		{"case, narrow", []Rule{with(account, PathPolicy{CaseInsensitive: true}), all}, "/ACCOUNTS/A", "account:a"},
		{"case, narrow, elsewhere", []Rule{with(account, PathPolicy{CaseInsensitive: true}), all}, "/OTHER/A", "all:OTHER/A"},
		{"case, broad", []Rule{account, with(all, PathPolicy{CaseInsensitive: true})}, "/ACCOUNTS/A", alias},
		{"case, broad, elsewhere", []Rule{account, with(all, PathPolicy{CaseInsensitive: true})}, "/OTHER/A", "all:other/a"},
		{"case, broad, the narrow one as it is", []Rule{account, with(all, PathPolicy{CaseInsensitive: true})}, "/accounts/A", "account:A"},
		{"slash, narrow", []Rule{with(account, PathPolicy{EncodedSlash: true}), all}, "/accounts/a%2Fb", "account:a%2Fb"},
		{"slash, narrow, elsewhere", []Rule{with(account, PathPolicy{EncodedSlash: true}), all}, "/accounts%2Fa", notCanonical},
		{"slash, narrow, doubled", []Rule{with(account, PathPolicy{EncodedSlash: true})}, "/ACCOUNTS/a%252Fb", notCanonical}, // /accounts/a%2Fb behind a hop
		{"slash, broad", []Rule{account, with(all, PathPolicy{EncodedSlash: true})}, "/accounts%2Fa", notCanonical},
		{"slash, broad, elsewhere", []Rule{account, with(all, PathPolicy{EncodedSlash: true})}, "/other%2Fa", "all:other%2Fa"},
		{"slash, broad, on the narrow one", []Rule{account, with(all, PathPolicy{EncodedSlash: true})}, "/accounts/a%2Fb", notCanonical},
		{"slash, both", []Rule{with(account, PathPolicy{EncodedSlash: true}), with(all, PathPolicy{EncodedSlash: true})}, "/accounts%2Fa", "all:accounts%2Fa"},
		{"params, broad", []Rule{account, with(all, PathPolicy{Params: true})}, "/accounts;x/a", notCanonical},
		{"params, broad, escaped", []Rule{account, with(all, PathPolicy{Params: true})}, "/accounts%3Bx/a", alias},
		// /accounts/%3Bx is account:%3Bx, also to who drops the slash at the end.
		{"params, narrow, a slash more", []Rule{with(account, PathPolicy{Params: true}), one}, "/accounts/%3Bx/", alias},
		{"params, narrow, as it is", []Rule{with(account, PathPolicy{Params: true}), one}, "/accounts/%3Bx", "account:%3Bx"},
		{"params, narrow, the broad one leaves out", []Rule{with(account, PathPolicy{Params: true}), with(deletes, PathPolicy{CaseInsensitive: true})}, "/accounts%2F%3Bx", notCanonical},
		{"normal, broad", []Rule{account, with(all, PathPolicy{Normalize: true})}, "/x/../accounts/a", notCanonical},
		{"normal, broad, away from the narrow one", []Rule{account, with(all, PathPolicy{Normalize: true})}, "/accounts/../a", "all:a"},
		{"normal, narrow", []Rule{with(account, PathPolicy{Normalize: true}), all}, "/x/../accounts/%61", "account:a"},
		{"everything, narrow", []Rule{with(account, everything), all}, "/x/..//ACCOUNTS/a%2F%42;c/", "account:a%2Fb%3Bc"},
		{"everything, but a deeper strict rule", []Rule{with(account, everything), {Name: "owner", Paths: []string{"/accounts/{id}/owner"}, Keys: keyed("owner:{id}")}}, "/accounts/a%2Fowner", notCanonical},
		{"trailing slash, narrow", []Rule{with(account, PathPolicy{TrailingSlash: true}), all}, "/accounts/a/", "account:a"},
		{"trailing slash, broad", []Rule{account, with(all, PathPolicy{TrailingSlash: true})}, "/accounts/a/", alias},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, detail := result(t, mustNew(t, test.rules...), byHand("PUT", test.target)); got != test.want {
				t.Fatalf("%s is %s (%s), want %s", test.target, got, detail, test.want)
			}
		})
	}
	// What the methods leave out is left out in every spelling.
	table := mustNew(t, with(Rule{Name: "put", Paths: []string{"/accounts/{id}"}, Methods: []string{"PUT"}, Keys: keyed("{id}")}, PathPolicy{CaseInsensitive: true}), all)
	for _, target := range []string{"/accounts/1", "/ACCOUNTS/1"} {
		m, err := table.Match(byHand("POST", target))
		if err != nil || m.Covered() || m.PathRule != 0 {
			t.Errorf("POST %s: %+v, %v", target, m, err)
		}
	}
}

func TestPolicyPatterns(t *testing.T) {
	rule := Rule{Paths: []string{"/a%2fb/{x}", "/a;b/{x:[^/]+;c}"}, Keys: keyed("{x}"), Policy: PathPolicy{EncodedSlash: true, Params: true}}
	table := mustNew(t, rule)
	for target, want := range map[string]string{"/a%2Fb/1": "1", "/a%2fb/1": "1", "/a/b/1": "path-alias", "/a;b/1;c": "1%3Bc", "/a;b/1": "-"} {
		if got, detail := result(t, table, byHand("PUT", target)); got != want && (want != "path-alias" || got != "-") {
			t.Errorf("%s is %s (%s), want %s", target, got, detail, want)
		}
	}
}

func TestPolicyInFingerprint(t *testing.T) {
	seen := map[string]PathPolicy{}
	for i := range 32 {
		p := PathPolicy{EncodedSlash: i&1 != 0, Params: i&2 != 0, Normalize: i&4 != 0, CaseInsensitive: i&8 != 0, TrailingSlash: i&16 != 0}
		f := string(Fingerprint(Rule{Paths: []string{"/a"}, Keys: keyed("a"), Policy: p}))
		if before, ok := seen[f]; ok {
			t.Errorf("%v and %v have one fingerprint", p, before)
		}
		seen[f] = p
	}
}

func TestTakesIn(t *testing.T) {
	for _, test := range []struct {
		broad, narrow string
		want          bool
	}{
		{"/*", "/a", true}, {"/*", "/*", true}, {"/a/*", "/A/{x}", true}, {"/{x}/*", "/a/b", true}, {"/a/{x}/*", "/a/{y}/b", true},
		{"/a/*", "/a", false}, {"/a/b/*", "/a", false}, {"/a/{x}/*", "/a/{x}", false}, {"/a", "/a", false}, {"/a/{x}", "/a/{x}", false},
		{"/b/*", "/a/{x}", false}, {"/{x:[0-9]+}/*", "/{y}/b", false}, {"/a/{x}", "/a/b", false},
	} {
		broad, err := parsePattern(test.broad, PathPolicy{})
		if err != nil {
			t.Fatal(err)
		}
		narrow, err := parsePattern(test.narrow, PathPolicy{})
		if err != nil {
			t.Fatal(err)
		}
		if got := broad.takesIn(narrow); got != test.want {
			t.Errorf("%s takes %s in: %v, want %v", test.broad, test.narrow, got, test.want)
		}
	}
}
