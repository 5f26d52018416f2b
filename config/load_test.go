package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// good is the shortest file that loads without a warning.
const good = `upstream: {url: http://127.0.0.1:9000}
store: {embedded: {}}
rules:
  - name: all
    path: /*
    key: "{path}"
`

func env(pairs ...string) Lookup {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// lines prints a report: errors, then warnings.
func lines(r Report) []string {
	var out []string
	for _, p := range r.Errors {
		out = append(out, p.Error())
	}
	for _, p := range r.Warnings {
		out = append(out, "warning: "+p.Error())
	}
	return out
}

func mustLoad(t *testing.T, data string, lookup Lookup) *Config {
	t.Helper()
	c, r := Load("f.yaml", []byte(data), lookup)
	if out := lines(r); out != nil {
		t.Fatalf("reported:\n%s", strings.Join(out, "\n"))
	}
	return c
}

func wantLines(t *testing.T, r Report, want ...string) {
	t.Helper()
	got := lines(r)
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestLoadDefaults(t *testing.T) {
	c := mustLoad(t, good, env())
	want := Default()
	want.Upstream.URL = "http://127.0.0.1:9000"
	want.Store.Embedded = &Embedded{Path: "./fenceproxy-data", Create: true}
	want.Rules = []Rule{{Name: "all", Paths: []string{"/*"}, Key: "{path}"}}
	wantSame(t, c, want)
}

// wantSame compares what the configurations say, not where they come from.
func wantSame(t *testing.T, got, want *Config) {
	t.Helper()
	g, w := *got, *want
	g.origin, w.origin = origin{}, origin{}
	if a, b := dump(g), dump(w); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

func TestLoadEverySetting(t *testing.T) {
	c := mustLoad(t, `
listen: {address: "unix:/x", socket_mode: 0600, tls: {cert_file: c, key_file: k, client_ca_file: ca}, header_timeout: 1s, idle_timeout: 2s, trusted_proxies: [10.0.0.0/8, "::1"]}
upstream:
  url: HTTPS://svc.example:81/base
  tls: {ca_file: ca.pem, cert_file: crt.pem, key_file: key.pem, server_name: api.example}
  preserve_host: false
  connect_timeout: 3s
  response_timeout: 4s
  settle: 5s
  unsettled_statuses: [503]
admin: {address: ""}
store: {embedded: {path: /data, create: false}}
fencing: {header: X-Lock, format: hex, epoch: 18446744073709551615, token: none, mode: enforce, reads: fence, drain_timeout: 6s, disclose_highest: false, holder_header: X-Who, max_token: 0xFf, max_jump: 10}
rules:
  - name: a
    path: [/a/*, "/b/{id}"]
    methods: [PUT, POST, PATCH, DELETE, PURGE]
    key: k:{id}
    header: X-Other
    format: composite
    epoch: 3
    token: required
    mode: enforce
    reads: pass
    drain_timeout: 7s
    disclose_highest: true
    holder_header: ""
    max_token: 007.10
    max_jump: 1:0
    response_timeout: 8s
    settle: 9s
    websocket: true
    path_policy: {encoded_slash: segment, params: keep, normalize: true, case_insensitive: true, trailing_slash: same}
  - {name: b, path: /c}
  - name: c
    path: /d
    token: required
    keys:
      - {key: "a:{id}", header: X-A}
      - key: b
    path_policy: {normalize: true}
unmatched_writes: forward
limits: {max_body_buffer: 1, max_buffered: 2KiB, max_header: 3MiB, max_waiting_per_key: 4, max_waiting: 5, max_keys: 6}
shutdown_timeout: 20s
log: {level: debug, format: json, access: true}
`, env())
	want := Default()
	want.Listen = Listen{"unix:/x", 0o600, ListenTLS{"c", "k", "ca"}, time.Second, 2 * time.Second, []string{"10.0.0.0/8", "::1"}}
	want.Upstream = Upstream{"HTTPS://svc.example:81/base", TLS{"ca.pem", "crt.pem", "key.pem", "api.example"}, false, 3 * time.Second, 4 * time.Second, 5 * time.Second, []int{503}}
	want.Admin.Address = ""
	want.Store.Embedded = &Embedded{"/data", false}
	want.Fencing = Fencing{"X-Lock", Hex, 1<<64 - 1, TokenNone, Enforce, ReadsFence, 6 * time.Second, false, "X-Who", "0xFf", "10"}
	own := Fencing{"X-Other", Composite, 3, TokenRequired, Enforce, ReadsPass, 7 * time.Second, true, "", "007.10", "1:0"}
	response, settle, required := 8*time.Second, 9*time.Second, TokenRequired
	policy := PathPolicy{SlashSegment, ParamsKeep, true, true, SlashSame}
	canonical := PathPolicy{SlashReject, ParamsReject, false, false, SlashDistinct}
	normalize := PathPolicy{SlashReject, ParamsReject, true, false, SlashDistinct}
	want.Rules = []Rule{
		{"a", []string{"/a/*", "/b/{id}"}, []string{"PUT", "POST", "PATCH", "DELETE", "PURGE"}, "k:{id}", nil, true,
			Overrides{&own.Header, &own.Format, &own.Epoch, &own.Token, &own.Mode, &own.Reads, &own.DrainTimeout, &own.DiscloseHighest,
				&own.HolderHeader, &own.MaxToken, &own.MaxJump, &response, &settle, &policy}},
		{Name: "b", Paths: []string{"/c"}},
		{Name: "c", Paths: []string{"/d"}, Keys: []Key{{"a:{id}", "X-A"}, {"b", ""}},
			Overrides: Overrides{Token: &required, PathPolicy: &normalize}},
	}
	want.UnmatchedWrites = Forward
	want.Limits = Limits{1, 2 << 10, 3 << 20, 4, 5, 6}
	want.ShutdownTimeout = 20 * time.Second
	want.Log = Log{LevelDebug, LogJSON, true}
	wantSame(t, c, want)

	if got, want := c.Policy(&c.Rules[0]), (Policy{own, response, settle, policy}); got != want {
		t.Errorf("rule a: %+v, want %+v", got, want)
	}
	if got, want := c.Policy(&c.Rules[1]), (Policy{c.Fencing, 4 * time.Second, 5 * time.Second, canonical}); got != want {
		t.Errorf("rule b: %+v, want %+v", got, want)
	}
}

// The file is read by people of several systems.
func TestLoadSpellings(t *testing.T) {
	want := mustLoad(t, good, env())
	for name, data := range map[string]string{
		"BOM":            "\uFEFF" + good,
		"CRLF":           strings.ReplaceAll(good, "\n", "\r\n"),
		"CR":             strings.ReplaceAll(good, "\n", "\r"),
		"document start": "---\n" + good,
		"document end":   good + "...\n",
		"comments":       "# über\n" + strings.ReplaceAll(good, "rules:", "rules: # c"),
		"tab after :":    strings.ReplaceAll(good, "path: ", "path:\t"),
		"JSON":           `{"upstream": {"url": "http://127.0.0.1:9000"}, "store": {"embedded": {}}, "rules": [{"name": "all", "path": ["/*"], "key": "{path}"}]}`,
		"quotes":         strings.ReplaceAll(good, "all", `"\u0061ll"`),
		"block text":     strings.ReplaceAll(good, "path: /*", "path: >-\n      /*"),
	} {
		t.Run(name, func(t *testing.T) { wantSame(t, mustLoad(t, data, env()), want) })
	}
}

func TestLoadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.yaml")
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, r := LoadFile(path, env()); r.Err() != nil || len(c.Rules) != 1 {
		t.Errorf("%d rules, %v", len(c.Rules), r.Err())
	}
	missing := filepath.Join(dir, "none.yaml")
	_, r := LoadFile(missing, env())
	wantLines(t, r, missing+": cannot be read: no such file or directory (a readable YAML file)")
	if err := os.WriteFile(path, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, r = LoadFile(path, env())
	wantLines(t, r, path+": is larger than 256 KiB (a configuration, not data)")
}

func dump(c Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n%+v\n%+v\n%+v\n", c.Listen, c.Upstream, c.Admin, c.Store.AcceptChangedRules)
	fmt.Fprintf(&b, "%+v %+v\n%+v\n", c.Store.Embedded, c.Store.Memory, c.Fencing)
	for _, r := range c.Rules {
		fmt.Fprintf(&b, "%q %q %q %q %q %t %+v\n", r.Name, r.Paths, r.Methods, r.Key, r.Keys, r.Methods == nil, c.Policy(&r))
	}
	fmt.Fprintf(&b, "%s %+v %s %+v\n", c.UnmatchedWrites, c.Limits, c.ShutdownTimeout, c.Log)
	return b.String()
}
