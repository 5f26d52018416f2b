package route

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKeyParts(t *testing.T) {
	long := strings.Repeat("a", 1024)
	for _, test := range []struct {
		name, path, key, target string
		headers                 []string
		want, reason            string
	}{
		{"path", "/a/*", "p:{path}", "/a/b%20c/d", nil, "p:/a/b%20c/d", ""},
		{"rest", "/a/*", "p:{*}", "/a/b%20c/d/", nil, "p:b%20c/d/", ""},
		{"rest is empty", "/*", "p:{*}", "/", nil, "key-unresolvable", "empty"},
		{"parameter is empty", "/a/{x}.{y}", "{x}:{y}", "/a/.y", nil, "key-unresolvable", "empty"},
		{"the separator in a value", "/a/{x}/{y}", "{x}:{y}", "/a/b:c/d", nil, "b%3Ac:d", ""},
		{"constant", "/a", "a", "/a", nil, "a", ""},
		{"as long as can be", "/a/{x}", "{x}", "/a/" + long, nil, long, ""},
		{"too long", "/a/{x}", "{x}", "/a/" + long + "a", nil, "key-unresolvable", "1024"},
		{"too long escaped", "/a/{x}", "{x}", "/a/" + strings.Repeat("%C3%A9", 200), nil, "key-unresolvable", "1024"},

		{"query", "/a", "{query.id}", "/a?id=4%2F2&x=y", nil, "4%2F2", ""},
		{"query name escaped", "/a", "{query.id}", "/a?%69d=42", nil, "42", ""},
		{"query missing", "/a", "{query.id}", "/a", nil, "key-unresolvable", "missing"},
		{"query missing among others", "/a", "{query.id}", "/a?x=1&idx=2", nil, "key-unresolvable", "missing"},
		{"query empty", "/a", "{query.id}", "/a?id=", nil, "key-unresolvable", "empty"},
		{"query without =", "/a", "{query.id}", "/a?id", nil, "key-unresolvable", "empty"},
		{"query doubled", "/a", "{query.id}", "/a?id=1&id=1", nil, "key-unresolvable", "twice"},
		{"query doubled in another spelling", "/a", "{query.id}", "/a?id=1&ID=2", nil, "key-unresolvable", "twice"},
		{"query doubled in brackets", "/a", "{query.id}", "/a?id=1&id[]=2", nil, "key-unresolvable", "twice"},
		{"query doubled and cut", "/a", "{query.id}", "/a?id=1&id%00x=2", nil, "key-unresolvable", "twice"},
		{"query in another spelling", "/a", "{query.id}", "/a?Id=1", nil, "key-unresolvable", "spelt"},
		{"query in brackets", "/a", "{query.id}", "/a?id[]=1", nil, "key-unresolvable", "spelt"},
		{"query dot for underscore", "/a", "{query.order_id}", "/a?order.id=1", nil, "key-unresolvable", "spelt"},
		{"query with semicolon", "/a", "{query.id}", "/a?id=1;x=2", nil, "key-unresolvable", ";"},
		{"query broken elsewhere", "/a", "{query.id}", "/a?id=1&x=%zz", nil, "key-unresolvable", "broken"},
		{"query name broken elsewhere", "/a", "{query.id}", "/a?id=1&%=x", nil, "key-unresolvable", "broken"},
		{"query not UTF-8", "/a", "{query.id}", "/a?id=%ff", nil, "key-unresolvable", "not UTF-8"},
		{"query with a lost character", "/a", "{query.id}", "/a?id=%EF%BF%BD", nil, "key-unresolvable", "U+FFFD"},
		{"query name in overlong UTF-8", "/a", "{query.id}", "/a?id=1&%C1%A9d=2", nil, "key-unresolvable", "name that is not UTF-8"},
		{"query not UTF-8 elsewhere", "/a", "{query.id}", "/a?id=1&x=%ff", nil, "1", ""},
		{"query plus", "/a", "{query.id}", "/a?id=a+b", nil, "key-unresolvable", "+"},
		{"query plus elsewhere", "/a", "{query.id}", "/a?id=a%2Bb&x=+", nil, "a%2Bb", ""},

		{"header", "/a", "{header.x-to}", "/a", []string{"X-To: a b"}, "a%20b", ""},
		{"header missing", "/a", "{header.X-To}", "/a", nil, "key-unresolvable", "missing"},
		{"header empty", "/a", "{header.X-To}", "/a", []string{"X-To: "}, "key-unresolvable", "empty"},
		{"header twice", "/a", "{header.X-To}", "/a", []string{"X-To: 1", "X-To: 1"}, "key-unresolvable", "twice"},

		{"method", "/a", "{method}", "/a", nil, "PUT", ""},
		{"method overridden", "/a", "{method}", "/a?_method=x", nil, "key-unresolvable", "override"},
	} {
		t.Run(test.name, func(t *testing.T) {
			table := mustNew(t, Rule{Name: "r", Paths: []string{test.path}, Keys: keyed(test.key)})
			got, detail := result(t, table, byHand("PUT", test.target, test.headers...))
			if got != test.want || !strings.Contains(detail, test.reason) {
				t.Fatalf("got %s (%s), want %s (%s)", got, detail, test.want, test.reason)
			}
			if r := parsed("PUT", test.target, test.headers...); r != nil {
				if got, detail := result(t, table, r); got != test.want {
					t.Fatalf("parsed: got %s (%s), want %s", got, detail, test.want)
				}
			}
		})
	}
}

func TestHostKeys(t *testing.T) {
	table := mustNew(t, Rule{Name: "r", Paths: []string{"/a"}, Keys: keyed("h:{host}")})
	for _, test := range []struct {
		host string
		tls  bool
		want string
	}{
		{"example.com", false, "h:example.com"}, {"Example.COM", false, "h:example.com"},
		{"example.com.", false, "h:example.com"}, {"example.com:80", false, "h:example.com"},
		{"example.com.:80", false, "h:example.com"}, {"example.com:", false, "h:example.com"},
		{"example.com:443", false, "h:example.com"}, {"example.com:443", true, "h:example.com"},
		{"example.com:80", true, "h:example.com"}, {"example.com:8080", false, "h:example.com"},
		{"[::1]:8080", false, "h:%5B%3A%3A1%5D"}, {"[0:0::1]", false, "h:%5B%3A%3A1%5D"},
		{"", false, "key-unresolvable"}, {".", false, "key-unresolvable"}, {"a..", false, "key-unresolvable"},
		{"a..b", false, "key-unresolvable"}, {".a", false, "key-unresolvable"}, {"a:080", false, "key-unresolvable"},
		{"a:x", false, "key-unresolvable"}, {"a:99999", false, "key-unresolvable"}, {"::1", false, "key-unresolvable"},
		{"a b", false, "key-unresolvable"}, {"u@a", false, "key-unresolvable"}, {"a,b", false, "key-unresolvable"},
		{"%61", false, "key-unresolvable"}, {"é", false, "key-unresolvable"}, {"[::1", false, "key-unresolvable"},
		{"[::1%25eth0]", false, "key-unresolvable"}, {"[127.0.0.1]", false, "key-unresolvable"},
	} {
		r := byHand("PUT", "/a")
		r.Host = test.host
		if test.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if got, detail := result(t, table, r); got != test.want {
			t.Errorf("host %q is %s (%s), want %s", test.host, got, detail, test.want)
		}
	}
	if got, detail := result(t, table, byHand("PUT", "/a", "Host: other")); got != "key-unresolvable" || !strings.Contains(detail, "twice") {
		t.Errorf("two hosts are %s (%s)", got, detail)
	}
}

func TestKeyOfNothing(t *testing.T) {
	table := mustNew(t, Rule{Name: "login", Paths: []string{"/login"}, NoKey: true})
	for _, target := range []string{"/login", "/other"} {
		m, err := table.Match(byHand("POST", target))
		if err != nil || m.Covered() != (target == "/login") {
			t.Fatalf("%s: %+v, %v", target, m, err)
		}
		var refusal *Refusal
		if _, err := table.Keys(&m, byHand("POST", target), nil); !errors.As(err, &refusal) || refusal.Kind != KeyUnresolvable {
			t.Errorf("%s: the key is refused with %v", target, err)
		}
	}
}

// Different values never make one key, whatever the template.
func TestKeysAreInjective(t *testing.T) {
	sources := []source{fromParam, fromRest, fromPath, fromQuery}
	rapid.Check(t, func(t *rapid.T) {
		var tmpl template
		n := rapid.IntRange(1, 4).Draw(t, "placeholders")
		for i := range n {
			if text := rapid.StringMatching(`[a/:._|@-]{0,3}`).Draw(t, "text"); text != "" {
				tmpl = append(tmpl, keyPart{from: fromLiteral, text: text})
			}
			tmpl = append(tmpl, keyPart{from: rapid.SampledFrom(sources).Draw(t, "source"), text: "{x}", index: i})
		}
		if tmpl.checkApart() != nil {
			return
		}
		value := rapid.StringMatching(`[a/:.%|é]{1,4}`)
		make := func(label string) ([]string, string) {
			var tuple []string
			var key []byte
			for _, part := range tmpl {
				if part.from == fromLiteral {
					key = append(key, part.text...)
					continue
				}
				v := value.Draw(t, label)
				tuple = append(tuple, v)
				key = appendValue(key, v, part.from.keepsSlash())
			}
			return tuple, string(key)
		}
		a, keyA := make("a")
		b, keyB := make("b")
		if (strings.Join(a, "\x00") == strings.Join(b, "\x00")) != (keyA == keyB) {
			t.Fatalf("the tuples %q and %q have the keys %q and %q", a, b, keyA, keyB)
		}
	})
}
