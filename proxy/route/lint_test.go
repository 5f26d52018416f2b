package route

import (
	"fmt"
	"strings"
	"testing"
)

func TestLint(t *testing.T) {
	rule := func(name, key string, paths ...string) Rule {
		return Rule{Name: name, Paths: paths, Keys: keyed(key)}
	}
	methods := func(r Rule, m ...string) Rule { r.Methods = m; return r }
	for _, test := range []struct {
		name  string
		rules []Rule
		want  []string // rule, setting, and a part of the message
	}{
		{"the contract's own example", []Rule{
			rule("accounts", "account:{id}", "/accounts/{id}", "/accounts/{id}/*"),
			{Name: "transfer", Paths: []string{"/transfer"}, Keys: keyed("account:{json:/from}", "account:{json:/to}")},
			{Name: "login", Paths: []string{"/login"}, NoKey: true},
		}, nil},
		{"what New refuses", []Rule{rule("a", "{x}", "/a/{id}")}, nil},
		{"a broad rule alone", []Rule{rule("all", "{path}", "/*")}, nil},

		{"all that is left", []Rule{rule("any", "a:{x}", "/u/{x:.+}"), {Name: "name", Paths: []string{"/u/{y}"}, NoKey: true}}, []string{"0 path[0] below", "1 path[0] never matches"}},
		{"narrow expression", []Rule{rule("number", "n:{x}", "/u/{x:[0-9]+}", "/u/{x:[0-9]+}/*"), rule("name", "s:{y}", "/u/{y}", "/u/{y}/*")}, nil},
		{"expression behind static text", []Rule{rule("static", "a", "/u/all"), rule("expr", "b:{x}", "/u/{x:all}", "/u/{x:all}/*")}, []string{"1 path[0] never matches", "1 path[1] alias of /u/all"}},
		{"expression with more than static text", []Rule{rule("static", "a", "/u/all"), rule("expr", "b:{x}", "/u/{x:all|one}", "/u/{x:all|one}/*")}, []string{"1 path[1] alias of /u/all"}},

		{"nothing below", []Rule{rule("a", "a:{id}", "/accounts/{id}")}, []string{`0 path[0] add "/accounts/{id}/*"`}},
		{"below in another rule", []Rule{rule("a", "a:{id}", "/accounts/{id}"), rule("b", "b:{id}", "/accounts/{id}/*")}, []string{"1 path[0] alias of /accounts/42"}},
		{"nothing below a call", []Rule{rule("a", "{grpc.service}:{x}", "/{s}/{x}")}, nil},

		{"the slash of a tree", []Rule{rule("files", "{path}", "/files/*")}, []string{`0 path[0] /files/ is refused as an alias of /files, which is on no rule's path; add "/files"`}},
		{"the slash of a tree under a broad rule", []Rule{rule("files", "f", "/files/*"), rule("all", "{path}", "/*")}, []string{`0 path[0] which is on the path "/*" of rule all; add "/files"`}},
		{"the slash of a tree of values", []Rule{rule("files", "f:{*}", "/files/*"), rule("all", "{path}", "/*")}, nil},
		{"the slash of an unfenced tree", []Rule{{Name: "a", Paths: []string{"/auth/*"}, NoKey: true}}, nil},
		{"the slash of a tree with its root", []Rule{rule("files", "f:{path}", "/files/*", "/files"), rule("all", "{path}", "/*")}, nil},

		{"a parameter as others write it", []Rule{rule("a", "a", "/a/:id/b")}, []string{`0 path[0] ":id" in the pattern "/a/:id/b" stands for itself, and for no other value; a parameter is written {id}`}},
		{"a colon inside a segment", []Rule{rule("a", "a:{id}", "/a/{id}:cancel", "/c:d/{id}:e/f"), rule("b", "b", "/v1:b/:", "/{x:[a:]+}:g/x", "/{y}/:z")}, []string{`1 path[2] ":z"`}},

		{"methods", []Rule{methods(rule("a", "a", "/a"), "PUT", "DELETE")}, []string{"0 methods leaves out POST, PATCH, and a _method"}},
		{"methods with POST", []Rule{methods(rule("a", "a", "/a"), "POST", "PUT")}, []string{"0 methods leaves out PATCH, DELETE (leave"}},
		{"methods side by side", []Rule{methods(rule("a", "a", "/a"), "POST", "PUT"), methods(rule("b", "a", "/a"), "PATCH", "DELETE")}, nil},
		{"methods side by side with other keys", []Rule{methods(rule("a", "a", "/a"), "POST", "PUT"), methods(rule("b", "b", "/a"), "PATCH", "DELETE")}, []string{"1 methods gets the key of rule a"}},
		{"reads alone", []Rule{methods(rule("a", "a", "/a"), "GET")}, nil},
		{"unfenced", []Rule{{Name: "a", Paths: []string{"/a"}, Methods: []string{"PUT"}, NoKey: true}}, nil},

		{"other parameters", []Rule{rule("a", "account:{id}", "/a/{id}", "/a/{id}/*"), rule("b", "account:{name}", "/b/{name}", "/b/{name}/*")}, []string{"1 key other parameters"}},
		{"more parameters", []Rule{rule("a", "account:{id}", "/a/{id}", "/a/{id}/*"), rule("b", "account:{t}:{id}", "/b/{t}/{id}", "/b/{t}/{id}/*")}, []string{"1 key other parameters"}},
		{"other filters", []Rule{rule("a", "account:{id|int}", "/a/{id}", "/a/{id}/*"), {Name: "b", Paths: []string{"/b"}, Keys: keyed("x", "account:{json:/a}")}}, []string{"1 keys[1].key other filters"}},
		{"more text", []Rule{rule("a", "order:{id}", "/a/{id}", "/a/{id}/*"), rule("b", "order:{id}:item:{x}", "/b/{id}/{x}", "/b/{id}/{x}/*")}, nil},
		{"same key", []Rule{rule("a", "account:{id}", "/a/{id}", "/a/{id}/*"), rule("b", "account:{id}", "/b/{id}", "/b/{id}/*")}, nil},
		{"no text", []Rule{rule("a", "{path}", "/a/*", "/a"), rule("b", "{x}", "/b/{x}", "/b/{x}/*")}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, w := range Lint(test.rules) {
				got = append(got, fmt.Sprintf("%d %s: %s", w.Rule, w.Setting, w.Msg))
			}
			if len(got) != len(test.want) {
				t.Fatalf("got %d warnings, want %d:\n%s", len(got), len(test.want), strings.Join(got, "\n"))
			}
			for i, want := range test.want {
				rule, rest, _ := strings.Cut(want, " ")
				setting, msg, _ := strings.Cut(rest, " ")
				if !strings.HasPrefix(got[i], rule+" "+setting+": ") || !strings.Contains(got[i], msg) {
					t.Errorf("got %s, want %s", got[i], want)
				}
			}
		})
	}
}
