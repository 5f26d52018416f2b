package config

import "testing"

func TestExpand(t *testing.T) {
	lookup := env("A", "1", "EMPTY", "", "NESTED", "${A}", "BRACES", "{x}")
	for _, tt := range []struct{ name, in, want, err string }{
		{"nothing", "account:{id}", "account:{id}", ""},
		{"one", "${A}", "1", ""},
		{"among text", "a${A}b${A}", "a1b1", ""},
		{"default unused", "${A:-2}", "1", ""},
		{"default of an unset one", "${NONE:-2}", "2", ""},
		{"default of an empty one", "${EMPTY:-2}", "2", ""},
		{"empty default", "x${NONE:-}", "x", ""},
		{"default with :-", "${NONE:-a:-b}", "a:-b", ""},
		{"empty", "x${EMPTY}", "x", ""},
		{"not expanded again", "${NESTED}", "${A}", ""},
		{"braces of a variable", "${BRACES}{id}", "{x}{id}", ""},
		{"escaped", "$${A}", "${A}", ""},
		{"escaped, then one", "$${A}${A}", "${A}1", ""},
		{"dollars", "$A $ {a:x$}", "$A $ {a:x$}", ""},
		{"unset", "${NONE}", "", "the variable NONE is not set (set it, or give a default: ${NONE:-default})"},
		{"not closed", "x${A", "", "${ is not closed (${VAR} or ${VAR:-default}; $${ for the text itself)"},
		{"no name", "${}", "", `"${}" is not a variable (${VAR} or ${VAR:-default}; $${ for the text itself)`},
		{"other form", "${A-2}", "", `"${A-2}" is not a variable (${VAR} or ${VAR:-default}; $${ for the text itself)`},
		{"brace in a default", "${A:-{id}}", "", "the default of ${A} holds a brace (a default without { and })"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := expand(tt.in, lookup)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if got != tt.want || text != tt.err {
				t.Errorf("%q, %q; want %q, %q", got, text, tt.want, tt.err)
			}
		})
	}
}

// A variable is a value, whatever it holds: it cannot bring in a setting, and
// its type is that of the setting.
func TestExpandInFile(t *testing.T) {
	data := `upstream: {url: "http://${HOST}:9000", unsettled_statuses: ["${STATUS}"]}
store: {embedded: {path: "${DIR}"}}
rules:
  - name: ${NAME:-all}
    path: "/${DIR}"
    key: $${x}:{path}
limits: {max_waiting_per_key: "${N}"}
log:
  access: ${YES}
`
	c := mustLoad(t, data, env("HOST", "svc", "STATUS", "202", "DIR", "a, create: false}", "N", "7", "YES", "true"))
	want := Default()
	want.Upstream.URL, want.Upstream.UnsettledStatuses = "http://svc:9000", []int{202}
	want.Store.Embedded = &Embedded{"a, create: false}", true}
	want.Rules = []Rule{{Name: "all", Paths: []string{"/a, create: false}"}, Key: "${x}:{path}"}}
	want.Limits.MaxWaitingPerKey = 7
	want.Log.Access = true
	wantSame(t, c, want)
}

func TestNoLookup(t *testing.T) {
	_, r := Load("f.yaml", []byte(good+"log: {level: \"${X}\", format: \"${X:-json}\"}\n"), nil)
	wantLines(t, r, "f.yaml:7:14: log.level: the variable X is not set (set it, or give a default: ${X:-default})")
}
