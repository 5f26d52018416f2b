package route

import (
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	rules := []Rule{
		{Name: "accounts", Paths: []string{"/accounts/{id}", "/accounts/{id}/*"}, Methods: []string{"PUT"}, Keys: keyed("account:{id|int}"), FenceReads: true},
		{Name: "transfer", Paths: []string{"/transfer"}, Keys: keyed("account:{json:/from}", "account:{json:/to}")},
		{Name: "cases", Paths: []string{"/cases/{x}"}, Keys: keyed("{x}:{path}"), Policy: PathPolicy{CaseInsensitive: true, Normalize: true}},
		{Name: "all", Paths: []string{"/*"}, Keys: keyed("all:{*}")},
	}
	table := mustNew(t, rules...)
	for _, test := range []struct {
		name, method, target, body string
		headers                    []string
		want                       string // Target, Path, Folded, Problem; the rules that match, * the chosen one; keys; the refusal
		why                        []string
	}{
		{"plain", "PUT", "/accounts/007?x", "", nil, "/accounts/007?x /accounts/007 /accounts/007 []; *accounts all; account:7 {id|int}=7", []string{"covers PUT", "no path", "no path", "more specific"}},
		{"alias", "PUT", "/ACCOUNTS/7", "", nil, " /ACCOUNTS/7 /accounts/7 []; all; path-alias", []string{"in its folded form, /accounts/7, the path /accounts/{id} does", "no path", "no path", "request is refused"}},
		{"method", "POST", "/accounts/7", "", nil, "/accounts/7 /accounts/7 /accounts/7 []; accounts all", []string{"covers PUT, not POST", "", "", "more specific one of another rule leaves"}},
		{"not canonical", "PUT", "/accounts//7", "", nil, " /accounts//7 /accounts/7 [an empty segment (//)]; accounts all; path-not-canonical", nil},
		{"read", "GET", "/accounts/7", "", []string{"X-Fencing-Token: 1"}, "/accounts/7 /accounts/7 /accounts/7 []; *accounts all; account:7 {id|int}=7", []string{"a read that carries a token", "", "", ""}},
		{"no read", "GET", "/accounts/7", "", nil, "/accounts/7 /accounts/7 /accounts/7 []; accounts all", []string{"not GET", "", "", ""}},
		{"no value", "PUT", "/accounts/x", "", nil, " /accounts/x /accounts/x []; *accounts all;  {id|int}!; key-unresolvable", nil},
		{"body", "PUT", "/transfer", `{"from":1,"to":2}`, []string{asJSON}, "/transfer /transfer /transfer []; *transfer all; account:1 {json:/from}=1; account:2 {json:/to}=2", nil},
		{"policy", "PUT", "/CASES/./A", "", nil, "/CASES/A /cases/a /cases/a [a dot segment (. or ..)]; *cases all; a:/cases/a {x}=a {path}=/cases/a", nil},
		{"override", "GET", "/accounts/7?_method=PUT", "", nil, "/accounts/7?_method=PUT /accounts/7 /accounts/7 []; *accounts all; account:7 {id|int}=7", []string{"method override", "", "", ""}},
		{"upgrade", "GET", "/accounts/7", "", []string{"Upgrade: TLS/1.0"}, " /accounts/7 /accounts/7 []; accounts all; upgrade-refused", nil},
		{"absolute", "PUT", "http://h/accounts/7", "", nil, " /accounts/7 /accounts/7 [a scheme and a host (it is a URL, not in origin-form)]; accounts all; path-not-canonical", nil},
		{"no target", "OPTIONS", "*", "", nil, "   []; ; bad-request", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := withBody(test.target, test.body, test.headers...)
			r.Method, r.ContentLength = test.method, 0
			e := table.Explain(r, []byte(test.body))
			if got := tell(&e); got != test.want {
				t.Fatalf("got  %s\nwant %s", got, test.want)
			}
			for i, why := range test.why {
				if !strings.Contains(e.Rules[i].Why, why) {
					t.Errorf("%s: %q, want %q", e.Rules[i].Name, e.Rules[i].Why, why)
				}
			}
			// It says what Match and Keys say.
			got, _ := result(t, table, r)
			if e.Refusal != nil && e.Refusal.Kind.String() != got || e.Refusal == nil && e.Match.Covered() != (got != "-") {
				t.Errorf("Match says %s", got)
			}
		})
	}
}

func tell(e *Explanation) string {
	parts := []string{strings.Join([]string{e.Target, e.Path, e.Folded, "[" + e.Problem + "]"}, " ")}
	var names []string
	for _, r := range e.Rules {
		switch {
		case r.Chosen:
			names = append(names, "*"+r.Name)
		case r.Pattern != "" || r.FoldedPattern != "" && e.Problem != "":
			names = append(names, r.Name)
		}
	}
	parts = append(parts, strings.Join(names, " "))
	for _, k := range e.Keys {
		text := string(k.Key)
		for _, p := range k.Parts {
			text += " " + p.Placeholder + map[bool]string{true: "=" + p.Value, false: "!"}[p.Problem == ""]
		}
		parts = append(parts, text)
	}
	if e.Refusal != nil {
		parts = append(parts, e.Refusal.Kind.String())
	}
	return strings.Join(parts, "; ")
}
