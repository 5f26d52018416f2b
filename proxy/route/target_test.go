package route

import (
	"strings"
	"testing"
)

func TestTargets(t *testing.T) {
	narrow, wide := mustNew(t, accounts()...), mustNew(t, broad()...)
	const notCanonical, alias = "path-not-canonical", "path-alias"
	for _, test := range []struct {
		name, target string
		narrow       string // with no broad rule: key, "-" or kind
		wide         string // with a /* rule
		reason       string // in the detail of the refusals
	}{
		{"plain", "/accounts/42", "account:42", "account:42", ""},
		{"deeper", "/accounts/42/owner", "account:42", "account:42", ""},
		{"one trailing slash", "/accounts/42/", "account:42", "account:42", ""},
		{"query is not looked at", "/accounts/42?x=%zz;y&&", "account:42", "account:42", ""},
		{"not under a rule", "/other/x", "-", "path:/other/x", ""},
		{"root", "/", "-", "path:/", ""},
		{"capitals in a value", "/accounts/AbC", "account:AbC", "account:AbC", ""},
		{"sub-delimiter raw", "/accounts/it's", "account:it%27s", "account:it%27s", ""},
		{"sub-delimiter escaped", "/accounts/it%27s", "account:it%27s", "account:it%27s", ""},
		{"small hex", "/accounts/%c3%a9", "account:%C3%A9", "account:%C3%A9", ""},
		{"capital hex", "/accounts/%C3%A9", "account:%C3%A9", "account:%C3%A9", ""},
		{"a lone percent", "/accounts/100%25", "account:100%25", "account:100%25", ""},
		{"an escaped hash", "/accounts/c%23", "account:c%23", "account:c%23", ""},
		// Folded they are /accounts, like /ACCOUNTS/%3B, which is on no rule's path.
		{"nothing but a parameter", "/accounts/%3B", alias, alias, "/accounts"},
		{"nothing but an overlong NUL", "/accounts/%C0%80", notCanonical, notCanonical, "not UTF-8"},
		// Many servers make one character of every byte that is not UTF-8.
		{"not UTF-8", "/accounts/%ff", notCanonical, notCanonical, "not UTF-8"},
		{"not UTF-8 elsewhere", "/other/%ff", "-", notCanonical, "not UTF-8"},
		{"a letter in more bytes than it needs", "/accounts/%E0%83%A9", notCanonical, notCanonical, "not UTF-8"},
		{"a lost character", "/accounts/%EF%BF%BD", notCanonical, notCanonical, "U+FFFD"},

		{"escaped letter in the value", "/accounts/%61", notCanonical, notCanonical, "%61 is a"},
		{"escaped letter in the text", "/%61ccounts/42", notCanonical, notCanonical, "%61 is a"},
		{"escaped tilde", "/accounts/%7Ex", notCanonical, notCanonical, "%7E is ~"},
		{"escaped dot inside", "/accounts/a%2eb", notCanonical, notCanonical, "%2E is ."},
		{"encoded slash", "/accounts/4%2F2", notCanonical, notCanonical, "%2F"},
		{"encoded slash for the slash", "/accounts%2f42", notCanonical, notCanonical, "%2F"},
		{"encoded backslash", "/accounts/4%5C2", notCanonical, notCanonical, "%5C"},
		{"encoded backslash for the slash", "/accounts%5c42", notCanonical, notCanonical, "%5C"},
		{"NUL", "/accounts/42%00", notCanonical, notCanonical, "NUL"},
		{"line feed", "/accounts/42%0a", notCanonical, notCanonical, "control byte"},
		{"DEL", "/accounts/42%7F", notCanonical, notCanonical, "control byte"},
		{"raw control byte", "/accounts/42\x01", notCanonical, notCanonical, "control byte"},
		{"raw space", "/accounts/4 2", notCanonical, notCanonical, "space"},
		{"raw not ASCII", "/accounts/é", notCanonical, notCanonical, "not ASCII"},
		{"raw backslash", "/accounts/4\\2", notCanonical, notCanonical, "backslash"},
		{"raw backslash for the slash", "/accounts\\42", notCanonical, notCanonical, "backslash"},
		{"fragment", "/accounts/42#x", notCanonical, notCanonical, "fragment"},
		{"fragment in the query", "/accounts/42?x#y", notCanonical, notCanonical, "fragment"},
		{"broken escape", "/accounts/%zz", notCanonical, notCanonical, "broken"},
		{"cut escape", "/accounts/4%", notCanonical, notCanonical, "broken"},
		{"cut escape with a digit", "/accounts/%4", notCanonical, notCanonical, "broken"},
		{"doubled escape of a letter", "/accounts/%2541", notCanonical, notCanonical, "doubled"},
		{"doubled escape of a slash", "/accounts%252F42", notCanonical, notCanonical, "doubled"},
		{"trebled escape", "/accounts%25252F42", notCanonical, notCanonical, "doubled"},
		{"parameter", "/accounts/42;v=1", notCanonical, notCanonical, "parameter"},
		{"parameter in the text", "/accounts;x/42", notCanonical, notCanonical, "parameter"},
		{"parameter on dots", "/accounts/7/..;x/42", notCanonical, notCanonical, "parameter"},
		{"dot", "/accounts/./42", notCanonical, notCanonical, "dot segment"},
		{"dots", "/accounts/7/../42", notCanonical, notCanonical, "dot segment"},
		{"dots into the rule", "/x/../accounts/42", notCanonical, notCanonical, "dot segment"},
		{"dots out of the rule", "/accounts/42/../../x", notCanonical, notCanonical, "dot segment"},
		{"dots at the end", "/accounts/42/7/..", notCanonical, notCanonical, "dot segment"},
		{"encoded dots", "/accounts/7/%2e%2e/42", notCanonical, notCanonical, "encoded dot segment"},
		{"half encoded dots", "/accounts/7/.%2E/42", notCanonical, notCanonical, "encoded dot segment"},
		{"empty segment", "/accounts//42", notCanonical, notCanonical, "empty segment"},
		{"empty segment in front", "//accounts/42", notCanonical, notCanonical, "empty segment"},
		{"two trailing slashes", "/accounts/42//", notCanonical, notCanonical, "empty segment"},
		{"overlong slash", "/accounts%C0%AF42", notCanonical, notCanonical, "not UTF-8"},
		{"overlong slash of three", "/accounts%e0%80%af42", notCanonical, notCanonical, "not UTF-8"},
		{"absolute-form", "http://example.com/accounts/42", notCanonical, notCanonical, "origin-form"},

		{"not canonical, not covered", "/a//b\\;c%41", "-", notCanonical, "empty segment"},
		{"dots out of static text", "/transfer/..//x", alias, notCanonical, "dot segment"},
		{"dots behind an escaped slash", "/x%2Fz/../accounts/42", alias, notCanonical, ""},
		// One server reads /transfer, /accounts/1, /accounts/# and /ACCOUNTS/1/,
		// another one what is on no rule's path.
		{"a slash behind a parameter", "/transfer;%2Fx", alias, notCanonical, ""},
		{"a slash behind an escaped parameter", "/transfer%3Bx%5Cy", alias, notCanonical, ""},
		{"a NUL in the middle", "/accounts%00/1", alias, notCanonical, "NUL"},
		{"an overlong NUL in the middle", "/accounts%C0%80/1", alias, notCanonical, ""},
		{"a fragment for a value", "/ACCOUNTS/#", alias, notCanonical, "fragment"},
		{"dots in two encodings", "/ACCOUNTS/1/%2e/..", alias, notCanonical, "dot segment"},
		{"two slashes as an authority", "//x/accounts/42", alias, notCanonical, ""},

		{"capitals in the text", "/ACCOUNTS/42", alias, alias, "/accounts/42"},
		{"one capital", "/accountS/42", alias, alias, "/accounts/42"},
		{"the long s", "/account%C5%BF/42", alias, alias, "/accounts/42"},
		{"escaped semicolon", "/accounts/42%3Bx", alias, alias, "another resource key"},
		{"escaped semicolon in the text", "/accounts%3Bx/42", alias, alias, "another rule"},
		{"trailing slash on static text", "/transfer/", alias, alias, "another rule"},
		{"capitals under the broad rule", "/Other/X", "-", "path:/Other/X", ""},
		{"trailing slash under the broad rule", "/other/", "-", "path:/other/", ""},
		{"escaped semicolon under the broad rule", "/other%3Bx", "-", alias, "another resource key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := func(how, got, detail, want string) {
				if got != want {
					t.Errorf("%s: %s is %s (%s), want %s", how, test.target, got, detail, want)
				}
				if detail != "" && !strings.Contains(detail, test.reason) {
					t.Errorf("%s: the detail %q does not name %q", how, detail, test.reason)
				}
			}
			got, detail := result(t, narrow, byHand("PUT", test.target))
			check("narrow", got, detail, test.narrow)
			got, detail = result(t, wide, byHand("PUT", test.target))
			check("wide", got, detail, test.wide)
			if r := parsed("PUT", test.target); r != nil {
				got, detail = result(t, wide, r)
				check("parsed", got, detail, test.wide)
			}
			// What passes is forwarded byte for byte; a safe request always.
			for _, method := range []string{"PUT", "GET"} {
				m, err := wide.Match(byHand(method, test.target))
				if method == "GET" && err != nil {
					t.Errorf("GET is refused: %v", err)
				}
				if want := strings.TrimPrefix(test.target, "http://example.com"); err == nil && m.Target != want {
					t.Errorf("%s: the target to forward is %q, want %q", method, m.Target, want)
				}
			}
		})
	}
}

func TestTargetForms(t *testing.T) {
	table := mustNew(t, accounts()...)
	for _, test := range []struct{ name, method, target, want, forward string }{
		{"CONNECT", "CONNECT", "example.com:443", "method-not-allowed", ""},
		{"CONNECT with a path", "CONNECT", "/accounts/42", "method-not-allowed", ""},
		{"PRI", "PRI", "*", "bad-request", ""},
		{"PRI with a path", "PRI", "/other", "bad-request", ""},
		{"asterisk", "OPTIONS", "*", "bad-request", ""},
		{"asterisk of a read", "GET", "*", "bad-request", ""},
		{"no target", "GET", "", "bad-request", ""},
		{"another scheme", "GET", "ftp://example.com/x", "bad-request", ""},
		{"opaque", "GET", "foo:bar", "bad-request", ""},
		{"one slash", "GET", "http:/accounts/42", "bad-request", ""},
		{"no host", "GET", "http:///accounts/42", "bad-request", ""},
		{"no host, a write", "PUT", "http:///accounts/42", "bad-request", ""},
		{"OPTIONS of a server", "OPTIONS", "http://example.com", "bad-request", ""},
		{"OPTIONS of a path", "OPTIONS", "http://example.com/other", "-", "/other"},
		{"absolute read", "GET", "HTTP://example.com/a//%62?c;d", "-", "/a//%62?c;d"},
		{"absolute read without a path", "GET", "http://example.com", "-", "/"},
		{"absolute read with a query only", "GET", "http://example.com?x", "-", "/?x"},
		{"absolute write elsewhere", "PUT", "https://example.com/other", "-", "/other"},
		{"absolute alias", "PUT", "http://example.com/ACCOUNTS/42", "path-not-canonical", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := byHand(test.method, test.target)
			if got, detail := result(t, table, r); got != test.want {
				t.Fatalf("got %s (%s), want %s", got, detail, test.want)
			}
			if m, err := table.Match(r); err == nil && m.Target != test.forward {
				t.Fatalf("the target to forward is %q, want %q", m.Target, test.forward)
			}
			if r := parsed(test.method, test.target); r != nil {
				if got, detail := result(t, table, r); got != test.want {
					t.Fatalf("parsed: got %s (%s), want %s", got, detail, test.want)
				}
			}
		})
	}
}

// The folded form is the same for everything a careless upstream may merge.
func TestFold(t *testing.T) {
	for _, test := range []struct{ raw, want string }{
		{"/", "/"}, {"//", "/"}, {"/..", "/"}, {"/a/b", "/a/b"}, {"/a/b/", "/a/b"},
		{"/A/%42", "/a/b"}, {"/a%2fb", "/a/b"}, {"/a%5cb", "/a/b"}, {`\a\b`, "/a/b"},
		{"/a;x=1/b;y", "/a/b"}, {"/a%3bx/b", "/a/b"}, {"/a/x/..;/b", "/a/b"},
		{"/a/x/%252e%252e/b", "/a/b"}, {"/a/%2%35%36%32", "/a/b"}, {"/a/b%00c", "/a/b"},
		{"/a/b#c", "/a/b"}, {"/a/b%0a", "/a/b"}, {"/a/%\x0162", "/a/b"}, {"/a%c0%afb", "/a/b"},
		{"/a/%e2%84%aa", "/a/k"}, {"/a/%ff%C3", "/a/\xff\xc3"}, {"/a/%zz%", "/a/%zz%"},
		{"/%C3%84", "/" + string(lowerRune('ä'))}, {"/a/b%7f", "/a/b"}, {"/%E0%A4%B9/%E1%80%80", "/ह/က"}, {"/a/x/%C0%AE%C0%AE/b", "/a/b"}, {"/a%e0%80%afb", "/a/b"},
	} {
		if got := fold(test.raw, PathPolicy{}); got != test.want {
			t.Errorf("fold(%q) = %q, want %q", test.raw, got, test.want)
		}
	}
	keep := PathPolicy{EncodedSlash: true, Params: true}
	for raw, want := range map[string]string{"/a%2Fb;c": "/a%2fb;c", "/a%2F%01b": "/a%2fb", "/a%c0%afb": "/a/b", "/a%5Cb": "/a/b"} {
		if got := fold(raw, keep); got != want {
			t.Errorf("fold(%q), which keeps slashes and parameters, = %q, want %q", raw, got, want)
		}
	}
}

// A header's worth of doubled escapes must not take a second.
func TestFoldIsLinear(t *testing.T) {
	raw := "/" + strings.Repeat("%25", 1) + strings.Repeat("25", 1<<19)
	if got := fold(raw+"41", PathPolicy{}); got != "/a" {
		t.Fatalf("fold of nested escapes is %.20q", got)
	}
}

// What a rule covers and what it folds to is on no rule's path has spellings
// that no rule covers: it is refused, they pass.
func TestFoldsToNothing(t *testing.T) {
	table := mustNew(t,
		Rule{Name: "files", Paths: []string{"/files/*"}, Keys: keyed("files")},
		Rule{Name: "pairs", Paths: []string{"/p/{x}-{y}"}, Keys: keyed("{x}:{y}")},
		Rule{Name: "auth", Paths: []string{"/auth/*"}, NoKey: true})
	for target, want := range map[string]string{
		"/files/a": "files", "/files/": "path-alias", "/FILES/": "-", "/files": "-",
		"/p/1-2": "1:2", "/p/1%3B-2": "path-alias", "/P/1%3B-2": "-",
	} {
		if got, detail := result(t, table, byHand("PUT", target)); got != want {
			t.Errorf("%s is %s (%s), want %s", target, got, detail, want)
		}
	}
	// Without a fence there is nothing to get around.
	if m, err := table.Match(byHand("POST", "/auth/")); err != nil || m.Rule != 2 {
		t.Errorf("/auth/ is of rule %d, error %v", m.Rule, err)
	}
}
