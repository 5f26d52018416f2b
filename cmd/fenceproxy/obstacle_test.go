package main

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/config"
)

// planText plans a configuration with these rules.
func planText(t *testing.T, rules string) (*config.Config, planned) {
	t.Helper()
	cfg, report := config.Load("file.yaml", []byte("upstream: {url: http://127.0.0.1:1}\nstore: {memory: {}}\n"+rules), func(string) (string, bool) { return "", false })
	p := plan(cfg, &report)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	return cfg, p
}

// What a reload cannot do, in the words of the error; nothing for what it can.
func TestObstacles(t *testing.T) {
	const accounts = `{name: accounts, path: ["/accounts/{id}", "/a/{id}"], key: "account:{id}", epoch: 2}`
	for _, c := range []struct {
		name, before, now string
		want              []string
	}{
		{"nothing", "rules: [" + accounts + "]", "rules: [" + accounts + "]", nil},
		{"a name", "rules: [" + accounts + "]", "rules: [" + strings.Replace(accounts, "name: accounts", "name: money", 1) + "]", nil},
		{"a rule beside", "rules: [" + accounts + "]", `rules: [` + accounts + `, {name: files, path: "/files/*", key: "{path}"}]`, nil},
		{"everything", "rules: [" + accounts + "]\nlimits: {max_header: 32KiB}",
			`rules: [{name: accounts, path: "/accounts/{id}", key: "acct:{id}", epoch: 1}, {name: short, path: "/a/{id}", key: "a:{id}"}]` + "\nshutdown_timeout: 99s\nlog: {format: json}",
			[]string{"a change of limits.max_header, log.format needs a restart", "the keys of rule accounts would be made otherwise",
				"rule short would make the keys of /a/{id} otherwise than rule accounts", "the epoch of rule accounts is 1 and was 2 already", "nothing was changed: undo it in the file"}},
		{"a name and the keys", `rules: [{name: a, path: "/a/{id}", key: "a:{id}"}]`, `rules: [{name: b, path: ["/b/{id}", "/a/{id}"], key: "b:{id|lower}", methods: [PUT]}]`,
			[]string{"rule b would make the keys of /a/{id} otherwise than rule a"}},
		{"a name and the format", `rules: [{name: a, path: "/a/{id}", key: "a:{id}"}]`, `rules: [{name: b, path: "/a/{id}", key: "a:{id}", format: hex}]`,
			[]string{"rule b would make the keys of /a/{id} otherwise than rule a"}},
		{"another method", `rules: [{name: a, path: "/a/{id}", key: "a:{id}", methods: [PUT]}]`,
			`rules: [{name: a, path: "/a/{id}", key: "a:{id}", methods: [PUT]}, {name: b, path: "/a/{id}", key: "b:{id}", methods: [POST]}]`, nil},
		{"no fence before", `rules: [{name: a, path: "/a/{id}", token: none}]`, `rules: [{name: b, path: "/a/{id}", key: "b:{id}"}]`, nil},
		{"no fence now", `rules: [{name: a, path: "/a/{id}", key: "a:{id}"}]`, `rules: [{name: b, path: "/a/{id}", token: none}]`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			beforeCfg, before := planText(t, c.before)
			nowCfg, now := planText(t, c.now)
			err := obstacles(before, now, config.Diff(beforeCfg, nowCfg))
			if err == nil && c.want != nil || err != nil && c.want == nil {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v\nlacks %q", err, want)
				}
			}
		})
	}
}
