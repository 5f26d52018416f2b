package config

import (
	"slices"
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	load := func(text string) *Config {
		c, report := Load("f.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if err := report.Err(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	base := "upstream: {url: http://127.0.0.1:1}\nstore: {embedded: {path: a}}\nunmatched_writes: reject\n"
	for text, want := range map[string]string{
		base:                                     "",
		strings.Replace(base, ":1}", ":2}", 1):   "upstream.url",
		strings.Replace(base, ": a}", ": b}", 1): "store.embedded.path",
		strings.Replace(base, "embedded: {path: a}", "memory: {}", 1):         "store.embedded store.memory",
		base + "log: {level: debug}\nrules: [{name: a, path: /a, key: a}]\n":  "rules log.level",
		base + "listen: {idle_timeout: 3s, tls: {cert_file: a, key_file: b}}": "listen.tls.cert_file listen.tls.key_file listen.idle_timeout",
	} {
		if got := Diff(load(base), load(text)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: Diff = %v, want %s", text, got, want)
		}
	}
}
