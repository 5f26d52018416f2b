package route

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRuleErrors(t *testing.T) {
	one := func(path, key string) []Rule { return []Rule{{Name: "r", Paths: []string{path}, Keys: keyed(key)}} }
	two := func(a, b string) []Rule {
		return []Rule{{Name: "a", Paths: []string{a}, Keys: keyed("k")}, {Name: "b", Paths: []string{b}, Keys: keyed("k")}}
	}
	for _, test := range []struct {
		name    string
		rules   []Rule
		setting string // of the error, with the rule in front
		msg     string
	}{
		{"no path", []Rule{{Keys: keyed("k")}}, "0 path", "no path"},
		{"no slash", one("a", "k"), "0 path[0]", "begin with /"},
		{"empty", one("", "k"), "0 path[0]", "begin with /"},
		{"open brace", one("/a/{id", "k"), "0 path[0]", "{ without }"},
		{"closing brace", one("/a/id}", "k"), "0 path[0]", "} without {"},
		{"star inside", one("/a/*/b", "k"), "0 path[0]", "must be last"},
		{"star without slash", one("/a*", "k"), "0 path[0]", "follow a /"},
		{"star behind a parameter", one("/a/{id}*", "k"), "0 path[0]", "follow a /"},
		{"no name", one("/a/{}", "k"), "0 path[0]", "no name"},
		{"bad name", one("/a/{a.b}", "k"), "0 path[0]", "no name"},
		{"taken name", one("/a/{host}", "k"), "0 path[0]", "taken"},
		{"name twice", one("/a/{id}/{id}", "k"), "0 path[0]", "twice"},
		{"two together", one("/a/{x}{y}", "k"), "0 path[0]", "nothing parts"},
		{"letter behind", one("/a/{x}Suffix", "k"), "0 path[0]", "letter follows"},
		{"many parameters", one("/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/*", "k"), "0 path[0]", "more than 10"},
		{"empty segment", one("/a//b", "k"), "0 path[0]", "empty segment"},
		{"dot segment", one("/a/../b", "k"), "0 path[0]", "dot segment"},
		{"query", one("/a?x=1", "k"), "0 path[0]", "see no query"},
		{"semicolon", one("/a;x", "k"), "0 path[0]", "params: keep"},
		{"escape", one("/caf%C3%A9", "k"), "0 path[0]", "the escape %C3"},
		{"encoded slash", one("/a%2fb", "k"), "0 path[0]", "encoded_slash"},
		{"not UTF-8", one("/a\xff", "k"), "0 path[0]", "UTF-8"},
		{"control byte", one("/a\n", "k"), "0 path[0]", "control byte"},
		{"bad expression", one("/a/{id:[}", "k"), "0 path[0]", "not valid"},
		{"expression out of its group", one("/a/{id:a)|(b}", "k"), "0 path[0]", "not valid"},
		{"empty expression", one("/a/{id:}", "k"), "0 path[0]", "empty"},
		{"expression over a slash", one("/a/{id:.+}.json", "k"), "0 path[0]", "may match a /"},
		{"word boundary", one(`/a/{id:\bx}`, "k"), "0 path[0]", `\b`},
		{"braces in an expression", one(`/a/{id:\x7b}`, "k"), "0 path[0]", "braces"},

		{"bad method", []Rule{{Paths: []string{"/a"}, Methods: []string{"PUT,POST"}, Keys: keyed("k")}}, "0 methods", "no method"},
		{"CONNECT", []Rule{{Paths: []string{"/a"}, Methods: []string{"connect"}, Keys: keyed("k")}}, "0 methods", "never passes"},
		{"key without fence", []Rule{{Paths: []string{"/a"}, Keys: keyed("k"), NoKey: true}}, "0 key", "token: none"},

		{"no key", []Rule{{Paths: []string{"/a"}}}, "0 key", "no key"},
		{"many keys", []Rule{{Paths: []string{"/a"}, Keys: make([]KeySpec, 17)}}, "0 keys", "at most 16"},
		{"the second key is bad", []Rule{{Paths: []string{"/a"}, Keys: keyed("a", "{x}")}}, "0 keys[1].key", "no such parameter"},
		{"the second header is bad", []Rule{{Paths: []string{"/a"}, Keys: []KeySpec{{"a", "A"}, {"b", "B C"}}}}, "0 keys[1].header", "no name"},
		{"the other's token in a key", []Rule{{Paths: []string{"/a"}, Keys: []KeySpec{{"a:{header.B}", "A"}, {"b", "B"}}}}, "0 keys[0].key", "a fencing header"},
		{"two forms of one body", []Rule{{Paths: []string{"/a"}, Keys: keyed("{json:/a}", "{form.a}")}}, "0 keys[1].key", "one form only"},
		{"reads without fence", []Rule{{Paths: []string{"/a"}, NoKey: true, FenceReads: true}}, "0 reads", "token: none"},
		{"reads without header", []Rule{{Paths: []string{"/a"}, FenceReads: true, Keys: []KeySpec{{Key: "a"}}}}, "0 header", "no header"},
		{"reads of two keys", []Rule{{Paths: []string{"/a"}, Methods: []string{"PUT"}, Keys: keyed("a"), FenceReads: true}, {Paths: []string{"/a"}, Methods: []string{"POST"}, Keys: keyed("b"), FenceReads: true}}, "1 path[0]", "reads: pass"},
		{"two websockets", []Rule{{Paths: []string{"/a"}, Methods: []string{"PUT"}, Keys: keyed("a"), WebSocket: true}, {Paths: []string{"/a"}, Methods: []string{"POST"}, Keys: keyed("a"), WebSocket: true}}, "1 path[0]", "websocket"},
		{"pointer without slash", one("/a", "{json:id}"), "0 key", "begin with /"},
		{"pointer with a bad ~", one("/a", "{json:/a~2}"), "0 key", "neither ~0"},
		{"XML path without slash", one("/a", "{xml:a}"), "0 key", "begin with /"},
		{"XML path of nothing", one("/a", "{xml:/}"), "0 key", "no name of an element"},
		{"XML attribute of nothing", one("/a", "{xml:/@a}"), "0 key", "no name of an element"},
		{"XML prefix", one("/a", "{xml:/a/x:b}"), "0 key", "without prefix"},
		{"XML attribute with prefix", one("/a", "{xml:/a/@x:b}"), "0 key", "without prefix"},
		{"XML namespace", one("/a", "{xml:/a/@xmlns}"), "0 key", "without prefix"},
		{"gRPC", one("/a", "{grpc.x}"), "0 key", "unknown"},
		{"form", one("/a", "{form.}"), "0 key", "unknown"},
		{"empty key", one("/a", ""), "0 key", "empty"},
		{"percent", one("/a", "100%"), "0 key", "has a %"},
		{"space", one("/a", "a b"), "0 key", "space"},
		{"key open brace", one("/a/{id}", "k:{id"), "0 key", "{ without }"},
		{"key closing brace", one("/a/{id}", "k:id}"), "0 key", "} without {"},
		{"no such parameter", one("/a/{id}", "k:{ix}"), "0 key", "no such parameter"},
		{"parameter of one path only", []Rule{{Paths: []string{"/a/{id}", "/b"}, Keys: keyed("k:{id}")}}, "0 key", `"/b"`},
		{"star without /*", one("/a", "k:{*}"), "0 key", "does not end in /*"},
		{"unknown placeholder", one("/a", "k:{query.}"), "0 key", "unknown"},
		{"unknown with a dot", one("/a", "k:{cookie.x}"), "0 key", "unknown"},
		{"filter", one("/a/{id}", "k:{id|upper}"), "0 key", "right are lower, int, uuid, trim"},
		{"empty filter", one("/a/{id}", "k:{id|}"), "0 key", "filter"},
		{"filter alone", one("/a/{id}", "k:{|lower}"), "0 key", "unknown"},
		{"Host header", one("/a", "k:{header.host}"), "0 key", "use {host}"},
		{"Connection header", one("/a", "k:{header.Connection}"), "0 key", "one connection"},
		{"rewrite header", one("/a", "k:{header.X_Original-URL}"), "0 key", "meaning of its own"},
		{"fencing header", one("/a", "k:{header.x-fencing-token}"), "0 key", "a fencing header"},
		{"together", one("/a/{x}/{y}", "{x}{y}"), "0 key", "where {x} ends"},
		{"parted by a letter", one("/a/{x}/{y}", "{x}-{y}"), "0 key", "where {x} ends"},
		{"path parted by a slash", one("/a/{x}", "{path}/{x}"), "0 key", "where {path} ends"},
		{"the third is not parted", one("/a/{x}/{y}", "{x}:{y}_{host}"), "0 key", "where {y} ends"},
		{"many placeholders", one("/a", strings.Repeat("{host}:", 17)), "0 key", "at most 16"},
		{"long key", one("/a", strings.Repeat("k", 1025)), "0 key", "longer than 1024"},

		{"bad header", []Rule{{Paths: []string{"/a"}, Keys: keyed("k"), Headers: []string{"X Y"}}}, "0 header", "no name"},
		{"headers that fold together", []Rule{{Paths: []string{"/a"}, Keys: keyed("k"), Headers: []string{"X_Fencing-Token"}}}, "0 header", "alias of the other"},
		{"override as fencing header", []Rule{{Paths: []string{"/a"}, Keys: keyed("k"), Headers: []string{"X-HTTP-Method"}}}, "0 header", "meaning of its own"},

		{"other names", two("/a/{x}", "/a/{y}"), "1 path[0]", "other parameter names"},
		{"other names with an expression", two("/a/{x:[0-9]+}", "/a/{y:[0-9]+}"), "1 path[0]", "other parameter names"},
		{"same path", two("/a/{x}", "/a/{x}"), "1 path[0]", "every method that is not safe"},
		{"same path and method", []Rule{{Paths: []string{"/a"}, Methods: []string{"GET"}, Keys: keyed("k")}, {Paths: []string{"/a"}, Methods: []string{"head"}, Keys: keyed("k")}}, "1 path[0]", "both cover HEAD"},
		{"all writes and one", []Rule{{Paths: []string{"/a"}, Keys: keyed("k")}, {Paths: []string{"/a"}, Methods: []string{"PURGE"}, Keys: keyed("k")}}, "1 path[0]", "both cover PURGE"},
		{"twice in a rule", []Rule{{Paths: []string{"/a", "/a"}, Keys: keyed("k")}}, "0 path[1]", "twice"},
		{"letter case", two("/a/{x}", "/A/{x}"), "1 path[0]", "letter case"},
		{"trailing slash", two("/a/", "/a"), "1 path[0]", "trailing slash"},
		{"two expressions", two("/a/{x:[0-9]+}", "/a/{y:[a-z]+}/b"), "1 path[0]", "another regular expression"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.rules, Options{Headers: []string{"X-Fencing-Token"}})
			var errs Errors
			if !errors.As(err, &errs) || len(errs) != 1 {
				t.Fatalf("want one error, got %v", err)
			}
			if got := fmt.Sprintf("%d %s", errs[0].Rule, errs[0].Setting); got != test.setting || !strings.Contains(errs[0].Msg, test.msg) {
				t.Fatalf("got %s: %s, want %s with %q", got, errs[0].Msg, test.setting, test.msg)
			}
			var single *RuleError
			if !errors.As(err, &single) {
				t.Fatal("no *RuleError within")
			}
		})
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	_, err := New([]Rule{
		{Paths: []string{"a", "/b/{x}", "/c//"}, Methods: []string{"?"}, Keys: keyed("{y}")},
		{Paths: []string{"/b/{z}"}, Keys: keyed("")},
	}, Options{Headers: []string{"Host"}})
	want := []string{"rules[0].path[0]", "rules[0].path[2]", "rules[0].methods", "rules[0].key", "rules[1].key", "rules[1].path[0]", "header: "}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Fatalf("got %d errors, want %d:\n%v", len(lines), len(want), err)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("error %d is %q, want %s", i, line, want[i])
		}
	}
}

func TestGoodRules(t *testing.T) {
	for _, rules := range [][]Rule{
		nil,
		{{Paths: []string{"/a/{x:[0-9]+}"}, Keys: keyed("n:{x}")}, {Paths: []string{"/a/{name}"}, Keys: keyed("s:{name}")}},
		{{Paths: []string{"/a/{x}", "/a/{x}/"}, Keys: keyed("{x}")}},
		{{Paths: []string{"/a/{x}", "/A/{x}"}, Keys: keyed("{x}")}},
		{{Paths: []string{"/a"}, Methods: []string{"PUT"}, Keys: keyed("a")}, {Paths: []string{"/a"}, Methods: []string{"GET"}, Keys: keyed("b")}},
		{{Paths: []string{"/a"}, Methods: []string{"GET"}, Keys: keyed("a")}, {Paths: []string{"/a"}, Keys: keyed("b")}},
		{{Paths: []string{"/login"}, NoKey: true}},
		{{Paths: []string{"/*"}, Keys: keyed("{host}/{*}")}, {Paths: []string{"/{x}.json"}, Keys: keyed("{x}")}, {Paths: []string{"/{x}"}, Keys: keyed("{x}")}},
		{{Paths: []string{"/v1/{name:[a-z]{2,3}}/100%/größe x"}, Keys: keyed("größe:{name}")}},
	} {
		if _, err := New(rules, Options{Headers: []string{"X-Fencing-Token"}}); err != nil {
			t.Errorf("%+v: %v", rules, err)
		}
	}
}

func TestMostSpecificWins(t *testing.T) {
	table := mustNew(t,
		Rule{Name: "rest", Paths: []string{"/*"}, Keys: keyed("rest:{*}")},
		Rule{Name: "name", Paths: []string{"/u/{name}"}, Keys: keyed("name:{name}")},
		Rule{Name: "number", Paths: []string{"/u/{id:[0-9]+|me}"}, Keys: keyed("number:{id}")},
		Rule{Name: "static", Paths: []string{"/u/all"}, Keys: keyed("static")},
		Rule{Name: "file", Paths: []string{"/u/{name}.{ext}"}, Keys: keyed("file:{name}:{ext}")},
		Rule{Name: "é", Paths: []string{"/é x/{id}"}, Keys: keyed("é:{id}")},
	)
	for target, want := range map[string]string{
		"/u/42": "number:42", "/u/me": "number:me", "/u/42x": "name:42x", "/u/mex": "name:mex", "/u/xme": "name:xme",
		"/u/all": "static", "/u/a.b.c": "file:a:b.c", "/u/.c": "key-unresolvable", "/u/a/b": "rest:u/a/b",
		"/u": "rest:u", "/": "key-unresolvable",
		"/u/":           "rest:u/", // folds to /u, which the same rule covers
		"/%C3%A9%20x/1": "é:1", "/%C3%89%20x/1": "path-alias",
		// ME is not taken for me under a broader rule: the expression folds.
		"/u/ME": "path-alias",
	} {
		if got, detail := result(t, table, byHand("PUT", target)); got != want {
			t.Errorf("%s is %s (%s), want %s", target, got, detail, want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	base := Rule{Name: "a", Paths: []string{"/a/{id}", "/b/{id}"}, Keys: keyed("k:{id}")}
	same := []Rule{base, base, base}
	same[0].Name, same[1].Methods = "z", []string{"PUT"}
	same[2].Paths = []string{"/b/{id}", "/a/{id}"}
	for i, r := range same {
		if Fingerprint(r) != Fingerprint(base) {
			t.Errorf("same[%d] has another fingerprint", i)
		}
	}
	other := []Rule{base, base, base, base}
	other[0].Paths = base.Paths[:1]
	other[1].Keys = keyed("l:{id}")
	other[2].Format++
	other[3].Paths, other[3].Keys = append([]string{"key"}, base.Paths...), keyed("k:{id}")
	if two, swapped := Fingerprint(Rule{Keys: keyed("a", "b")}), Fingerprint(Rule{Keys: keyed("b", "a")}); two != swapped || two == Fingerprint(Rule{Keys: keyed("a")}) {
		t.Error("the order of keys counts, or their number does not")
	}
	for i, r := range other {
		if Fingerprint(r) == Fingerprint(base) {
			t.Errorf("other[%d] has the same fingerprint", i)
		}
	}
	// It is kept in stores: a change of it makes every store refuse to open.
	if got := Fingerprint(base); got != "b7e2b305ef41d66e96e69af16b21fe18" {
		t.Errorf("the fingerprint is %s now", got)
	}
}
