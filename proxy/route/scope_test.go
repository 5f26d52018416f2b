package route

import (
	"net/http"
	"sync"
	"testing"
)

// TestScope is the table of Match: which check sees which request.
func TestScope(t *testing.T) {
	rules := append(accounts(), Rule{Name: "report", Paths: []string{"/report/{id}"}, Methods: []string{"GET"}, Keys: keyed("report:{id}")})
	table := mustNew(t, rules...)
	type row struct {
		check, target, method string
		headers               []string
		want                  string
	}
	for _, test := range []row{
		{"canonical", "/accounts/%61", "PUT", nil, "path-not-canonical"},
		{"canonical", "/accounts/%61", "POST", nil, "-"}, // the rule's methods leave it out
		{"canonical", "/other/%61", "PUT", nil, "-"},
		{"canonical", "/accounts/%61", "GET", nil, "-"},
		{"canonical", "/report/%61", "GET", nil, "path-not-canonical"},
		{"canonical", "/report/%61", "HEAD", nil, "path-not-canonical"},
		{"canonical", "/report/%61", "OPTIONS", nil, "-"},
		{"canonical", "/accounts/%61", "GET", []string{"X-Method-Override: PUT"}, "path-not-canonical"},

		{"path-alias", "/ACCOUNTS/42", "PUT", nil, "path-alias"},
		{"path-alias", "/ACCOUNTS/42", "POST", nil, "-"},
		{"path-alias", "/ACCOUNTS/42", "GET", nil, "-"},
		{"path-alias", "/REPORT/42", "GET", nil, "path-alias"},
		{"path-alias", "/REPORT/42", "OPTIONS", nil, "-"},
		{"path-alias", "/ACCOUNTS/42", "POST", []string{"X-Http-Method: PUT"}, "path-alias"},

		{"header-alias", "/accounts/42", "PUT", []string{"X_fencing_token: 1"}, "header-alias"},
		{"header-alias", "/other", "PUT", []string{"X.fencing.token: 1"}, "header-alias"},
		{"header-alias", "/accounts/42", "GET", []string{"X_fencing_token: 1"}, "-"},
		{"header-alias", "/report/42", "GET", []string{"X_fencing_token: 1"}, "header-alias"},
		{"header-alias", "/other", "GET", []string{"X_fencing_token: 1"}, "-"},
		{"header-alias of a key header", "/accounts/42", "PUT", []string{"X_to: 1"}, "header-alias"},

		{"connection-option", "/accounts/42", "PUT", []string{"Connection: close, x-fencing-token"}, "connection-option"},
		{"connection-option", "/accounts/42", "POST", []string{"Connection: x-fencing-token"}, "-"},
		{"connection-option", "/other", "PUT", []string{"Connection: x-fencing-token"}, "-"},
		{"connection-option", "/accounts/42", "GET", []string{"Connection: x-fencing-token"}, "-"},
		{"connection-option", "/report/42", "GET", []string{"Connection: Host"}, "connection-option"},

		{"Upgrade", "/accounts/42", "PUT", []string{"Upgrade: TLS/1.0"}, "upgrade-refused"},
		{"Upgrade", "/other", "PUT", []string{"Upgrade: TLS/1.0"}, "upgrade-refused"},
		{"Upgrade", "/other", "GET", []string{"Upgrade: websocket"}, "upgrade-refused"},

		{"override", "/accounts/42", "GET", []string{"X-Http-Method-Override: DELETE"}, "account:42"},
		{"override", "/other", "GET", []string{"X-Http-Method-Override: DELETE"}, "-"},
		{"_method", "/accounts/42?_method=delete", "GET", nil, "account:42"},
	} {
		t.Run(test.check+" "+test.method+" "+test.target, func(t *testing.T) {
			for how, r := range map[string]*http.Request{"by hand": byHand(test.method, test.target, test.headers...), "parsed": parsed(test.method, test.target, test.headers...)} {
				if got, detail := result(t, table, r); got != test.want {
					t.Errorf("%s: got %s (%s), want %s", how, got, detail, test.want)
				}
			}
		})
	}
}

// The first check that fails answers: target, aliases and Connection, rule, key.
func TestOrder(t *testing.T) {
	table := mustNew(t, accounts()...)
	headers := []string{"Upgrade: TLS/1.0", "X_fencing_token: 1", "Connection: host"}
	for _, test := range []struct {
		target string
		from   int // of headers
		want   string
	}{
		{"*", 0, "bad-request"},
		{"/TRANSFER/%61", 0, "upgrade-refused"},
		{"/transfer/%61", 1, "header-alias"}, // no rule covers it, but it is a write
		{"/transfer//", 1, "path-not-canonical"},
		{"/TRANSFER", 1, "path-alias"},
		{"/transfer", 1, "header-alias"},
		{"/transfer", 2, "connection-option"},
		{"/transfer", 3, "key-unresolvable"},
		{"/transfer?from=1", 3, "key-unresolvable"},
	} {
		got, detail := result(t, table, byHand("PUT", test.target, headers[test.from:]...))
		if got != test.want {
			t.Errorf("%s with %v is %s (%s), want %s", test.target, headers[test.from:], got, detail, test.want)
		}
	}
}

func TestMethods(t *testing.T) {
	table := mustNew(t,
		Rule{Name: "put", Paths: []string{"/a/{id}"}, Methods: []string{"PUT", "delete"}, Keys: keyed("put:{id}")},
		Rule{Name: "post", Paths: []string{"/a/{id}"}, Methods: []string{"POST"}, Keys: keyed("post:{id}")},
		Rule{Name: "writes", Paths: []string{"/b/{id}"}, Keys: keyed("b:{id}:{method}")},
		Rule{Name: "reads", Paths: []string{"/b/{id}"}, Methods: []string{"GET"}, Keys: keyed("r:{id}")},
		Rule{Name: "all", Paths: []string{"/*"}, Keys: keyed("all")},
	)
	for _, test := range []struct {
		method, target, header, want string
		pathRule                     int
	}{
		{"PUT", "/a/1", "", "put:1", -1},
		{"put", "/a/1", "", "put:1", -1}, // some upstreams take it for PUT
		{"DELETE", "/a/1", "", "put:1", -1},
		{"POST", "/a/1", "", "post:1", -1},
		{"PATCH", "/a/1", "", "-", 0}, // does not fall through to /*
		{"GET", "/a/1", "", "-", 0},
		{"POST", "/a/1/x", "", "all", -1},
		{"PROPPATCH", "/b/1", "", "b:1:PROPPATCH", -1},
		{"QUERY", "/b/1", "", "b:1:QUERY", -1},
		{"purge", "/b/1", "", "b:1:PURGE", -1},
		{"GET", "/b/1", "", "r:1", -1},
		{"HEAD", "/b/1", "", "r:1", -1},
		{"get", "/b/1", "", "b:1:GET", -1}, // not GET, so a write
		{"OPTIONS", "/b/1", "", "-", 2},
		{"POST", "/x", "X-Http-Method-Override: PUT", "all", -1},
		{"POST", "/a/1", "X-Http-Method-Override: PUT", "key-unresolvable", -1}, // which of two rules?
		{"PUT", "/A/1", "", "path-alias", -1},
		{"PATCH", "/A/1", "", "path-alias", -1}, // /* must not swallow what /a/{id} leaves out
	} {
		r := byHand(test.method, test.target)
		if test.header != "" {
			r = byHand(test.method, test.target, test.header)
		}
		if got, detail := result(t, table, r); got != test.want {
			t.Errorf("%s %s %s is %s (%s), want %s", test.method, test.target, test.header, got, detail, test.want)
		}
		if m, err := table.Match(r); err == nil && m.PathRule != test.pathRule {
			t.Errorf("%s %s: PathRule is %d, want %d", test.method, test.target, m.PathRule, test.pathRule)
		}
	}
}

// One Table serves every request at once; -race judges.
func TestConcurrentUse(t *testing.T) {
	table := mustNew(t, broad()...)
	var all sync.WaitGroup
	for _, test := range [][2]string{{"/accounts/1/x", "account:1"}, {"/accounts/2", "account:2"}, {"/ACCOUNTS/3", "path-alias"}, {"/o/%C3%A9", "path:/o/%C3%A9"}} {
		for range 4 {
			all.Go(func() {
				for range 200 {
					if got, detail := result(t, table, byHand("PUT", test[0])); got != test[1] {
						t.Errorf("%s is %s (%s), want %s", test[0], got, detail, test[1])
						return
					}
				}
			})
		}
	}
	all.Wait()
}
