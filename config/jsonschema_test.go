package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(JSONSchema())))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// conforms holds a YAML text to the schema.
func conforms(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	plain, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(plain)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// What Load takes conforms to the schema: the reference, and the files that the
// repository shows to users.
func TestSchemaTakesWhatLoads(t *testing.T) {
	s := compiledSchema(t)
	if err := conforms(t, s, reference); err != nil {
		t.Errorf("the reference: %v", err)
	}
	shown := 0
	err := filepath.WalkDir("../deploy", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(d.Name(), "fenceproxy") || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, report := Load(path, text, func(string) (string, bool) { return "x", true }); report.Err() != nil {
			return nil // no configuration
		}
		shown++
		if err := conforms(t, s, string(text)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil || shown == 0 {
		t.Errorf("%d files of deploy were looked at, %v", shown, err)
	}
}

func TestSchemaRefuses(t *testing.T) {
	const good = "upstream: {url: http://127.0.0.1:1, settle: 30s}\nstore: {embedded: {path: a}}\nlimits: {max_header: 64KiB, max_waiting: 3}\nrules: [{name: a, path: [/a, /b], key: a, token: optional, epoch: 3}]\n"
	s := compiledSchema(t)
	if err := conforms(t, s, good); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"settle: 30s", "settle: 30"},
		{"settle: 30s", "settel: 30s"},
		{"path: a}", "path: a, create: 3}"},
		{"max_header: 64KiB", "max_header: 64kb"},
		{"max_waiting: 3", "max_waiting: three"},
		{"token: optional", "token: maybe"},
		{"path: [/a, /b], ", ""},
		{"epoch: 3", "epoch: -3"},
		{"store: {embedded: {path: a}}\n", ""},
		{"rules: [", "rules: [7, "},
		{"embedded: {path: a}", ""},
		{"embedded: {path: a}", "embedded: {path: a}, memory: {}"},
		{"embedded: {path: a}", "session_ttl: 3s"},
		{"embedded: {path: a}", "postgres: {url: mysql://a}"},
		{"embedded: {path: a}", "redis: {url: 127.0.0.1:6379}"},
		{"embedded: {path: a}", "etcd: {endpoints: [\"127.0.0.1:2379\"]}"},
		{"key: a, ", ""},
		{"key: a, ", "key: a, keys: [{key: b}], "},
		{"http://127.0.0.1:1", "127.0.0.1:1"},
		{"http://127.0.0.1:1", "ftp://127.0.0.1:1"},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatalf("%s is not in the text", change[0])
		}
		if conforms(t, s, bad) == nil {
			t.Errorf("it takes\n%s", bad)
		}
	}
	for _, change := range [][2]string{
		{"max_waiting: 3", `max_waiting: "${WAITING:-3}"`},
		{"http://127.0.0.1:1", `"${UPSTREAM}"`},
		{"http://127.0.0.1:1", `unix:/run/api.sock`},
		{"token: optional", `token: "${TOKEN}"`},
		{"key: a, token: optional", `token: "${TOKEN}"`},
		{"key: a, token: optional", `token: none`},
		{"key: a", "keys: [{key: b}]"},
		{"key: a, token: optional, epoch: 3}]", "epoch: 3}]\nfencing: {token: none}"},
		{"embedded: {path: a}", "etcd: {endpoints: [\"HTTP://a:2379\"]}, session_ttl: 3s"},
		{"limits: {", "tracing: {otlp_endpoint: \"\"}\nlimits: {"},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if err := conforms(t, s, text); text == good || err != nil {
			t.Errorf("%v: it refuses\n%s", err, text)
		}
	}
}

// A choice that there is not is answered with those that there are, and with
// nothing else.
func TestSchemaNamesTheChoices(t *testing.T) {
	err := conforms(t, compiledSchema(t), "upstream: {url: http://127.0.0.1:1}\nstore: {memory: {}}\nfencing: {format: octal}\n")
	if err == nil || !strings.Contains(err.Error(), "'decimal', 'hex', 'composite'") || strings.Contains(err.Error(), "pattern") {
		t.Errorf("error %v", err)
	}
}

// Editors show what the reference says.
func TestSchemaDescribes(t *testing.T) {
	texts := described()
	for path, want := range map[string]string{
		"listen.tls.client_ca_file": "with it a client must have a certificate that one of these authorities signed",
		"upstream.settle":           "You promise: the upstream never applies a write later than this after the proxy lost sight of it. Newer tokens wait for that long.",
		"listen":                    "",
		"limits.max_body_buffer":    "a body up to this is read before admission, so that a slow client never holds a key; 0 to 1GiB",
	} {
		if texts[path] != want {
			t.Errorf("%s: %q, want %q", path, texts[path], want)
		}
	}
}
