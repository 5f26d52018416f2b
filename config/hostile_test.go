package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// What is no plain YAML is one error at its place, whatever else is wrong.
func TestHostile(t *testing.T) {
	for _, tt := range []struct{ name, data, want string }{
		{"second document", good + "---\nlog: {}\n", "f.yaml:7:1: a second document begins here (one document in a file)"},
		{"empty second document", good + "---\n", "f.yaml:7:1: a second document begins here (one document in a file)"},
		{"commented second document", good + "---\n# c\n", "f.yaml:7:1: a second document begins here (one document in a file)"},
		{"after the end", good + "...\nlog: {}\n", "f.yaml:8:4: a second document begins here (one document in a file)"},
		{"directive", "%YAML 1.2\n---\n" + good, "f.yaml:1:1: YAML directives are not supported (leave the line out)"},
		{"tab", "log:\n\tlevel: info\n", "f.yaml:2:2: a tab cannot indent (spaces)"},
		{"not UTF-8", "log: # \xe4\n", "f.yaml:1:8: byte 0xE4 is not UTF-8 (save the file as UTF-8)"},
		{"UTF-16", "\xff\xfel\x00", "f.yaml:1:1: byte 0xFF is not UTF-8 (save the file as UTF-8)"},
		{"NUL", "log:\r\n  level: a\x00b\n", "f.yaml:2:11: the character U+0000 is not allowed (plain text)"},
		{"escape sequence", "\r# \x1b[31m\n", "f.yaml:2:3: the character U+001B is not allowed (plain text)"},
		{"BOM in the middle", "a: \uFEFFb", "f.yaml:1:4: the character U+FEFF is not allowed (plain text)"},
		{"line separator", "a: \u2028b", "f.yaml:1:4: the character U+2028 is not allowed (plain text)"},
		{"next line", "a: x\u0085b: 1\n", "f.yaml:1:5: the character U+0085 is not allowed (plain text)"},
		{"braces in a flow list", "rules:\n  - path: [/accounts/{id}]\n", `f.yaml:2:22: ',' or ']' must be specified (valid YAML: text that holds { or } needs quotes inside [ ] and { }, and where it begins with {, as in ["/accounts/{id}"])`},
		{"brace first", "key: {a}:{b}\n", `f.yaml:1:9: value is not allowed in this context (valid YAML: text that holds { or } needs quotes inside [ ] and { }, and where it begins with {, as in ["/accounts/{id}"])`},
		{"variable in a flow map", "log: {level: ${L}}\n", `f.yaml:1:15: ',' or '}' must be specified (valid YAML: text that holds { or } needs quotes inside [ ] and { }, and where it begins with {, as in ["/accounts/{id}"])`},
		{"unclosed list", "a: [1\n", "f.yaml:1:4: sequence end token ']' not found (valid YAML)"},
		{"unclosed quotes", "a: \"1\n", "f.yaml:1:4: could not find end character of double-quoted text (valid YAML)"},
		{"two colons", "a: b: c\n", `f.yaml:1:4: mapping value is not allowed in this context (valid YAML: look at the indentation, and quote text that holds ": ")`},
		{"indentation", "a:\n  b: 1\n c: 2\n", "f.yaml:3:2: value is not allowed in this context (valid YAML: look at the indentation)"},
		{"brackets", strings.Repeat("[", 100_000), "f.yaml:1:33: nests deeper than 32 levels (a configuration nests a few levels)"},
		{"braces", strings.Repeat("{a: ", 33) + strings.Repeat("}", 33), "f.yaml:1:129: nests deeper than 32 levels (a configuration nests a few levels)"},
		{"entries", strings.Repeat("- ", 100_000) + "x", "f.yaml:1:65: nests deeper than 32 levels (a configuration nests a few levels)"},
		{"too large", strings.Repeat(" ", maxFile+1), "f.yaml: is larger than 256 KiB (a configuration, not data)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, r := Load("f.yaml", []byte(tt.data), env())
			wantLines(t, r, tt.want)
			if c == nil || !r.Has("rules[0].key") {
				t.Error("a file that cannot be read has an error everywhere")
			}
		})
	}
}

// Aliases could make a small file a huge one, and a merge key could bring in
// settings that stand elsewhere: refused at each place.
func TestAnchors(t *testing.T) {
	_, r := Load("f.yaml", []byte("listen: &a {address: \":1\"}\nadmin: *a\nlog: {level: &b info, format: *b, <<: {access: true}, access: !!bool true}\n"+good), env())
	wantLines(t, r,
		"f.yaml:1:9: listen: anchors and aliases are not supported (write the value out)",
		"f.yaml:2:8: admin: anchors and aliases are not supported (write the value out)",
		"f.yaml:3:14: log.level: anchors and aliases are not supported (write the value out)",
		"f.yaml:3:31: log.format: anchors and aliases are not supported (write the value out)",
		"f.yaml:3:35: log.<<: merge keys are not supported (write the settings out)",
		"f.yaml:3:63: log.access: YAML tags are not supported (the value alone)")
}

// The loader's time must not explode with a file of the size that it takes.
func TestLargeFiles(t *testing.T) {
	for name, piece := range map[string]string{
		"one setting over and over": "log: {}\n",
		"unknown settings":          "colour: red\n",
		"one long line":             "a: b, ",
		"quotes":                    "'",
		"indentation":               "",
		"dashes":                    "-\n",
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for i := 0; b.Len() < 32<<10; i++ {
				if piece == "" {
					b.WriteString(strings.Repeat(" ", i) + "a:\n")
				}
				b.WriteString(piece)
			}
			start := time.Now()
			_, r := Load("f.yaml", []byte(b.String()), env())
			took := time.Since(start)
			if t.Logf("%d bytes, %d errors, %s", b.Len(), len(r.Errors), took); len(r.Errors) == 0 {
				t.Error("no error")
			}
			if took > 10*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// checkPolicy holds what is true of every rule that is fit for use.
func checkPolicy(t *testing.T, c *Config, r *Rule) {
	p, keys := c.Policy(r), c.Keys(r)
	for _, ch := range []choice{p.Format, p.Token, p.Mode, p.Reads, p.PathPolicy.EncodedSlash, p.PathPolicy.Params, p.PathPolicy.TrailingSlash} {
		if !slices.Contains(ch.choices(), fmt.Sprint(ch)) {
			t.Errorf("rule %s: %q is none of %q", r.Name, ch, ch.choices())
		}
	}
	if p.Token != TokenNone && (len(keys) < 1 || len(keys) > 16 || r.Key != "" && r.Keys != nil) {
		t.Errorf("rule %s: %d keys", r.Name, len(keys))
	}
	for _, k := range keys {
		if k.Template == "" || k.Header == "" || strings.EqualFold(k.Header, p.HolderHeader) {
			t.Errorf("rule %s, whose holder_header is %q: the key %+v", r.Name, p.HolderHeader, k)
		}
	}
	for _, bound := range []string{p.MaxToken, p.MaxJump} {
		if p.Token != TokenNone && bound != "" && !shapes[p.Format].text.MatchString(bound) {
			t.Errorf("rule %s: the bound %q is no %s token", r.Name, bound, p.Format)
		}
	}
}

const corpus = "testdata/fuzz/FuzzLoad"

func TestCorpusIsNotEmpty(t *testing.T) {
	files, err := filepath.Glob(corpus + "/*")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files in %s, %v: the fuzz test starts from nothing", len(files), corpus, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || !strings.HasPrefix(string(data), "go test fuzz v1\n") {
			t.Errorf("%s is no seed: %v", f, err)
		}
	}
}

// FuzzLoad holds what is true of every file: Load returns, each report is one
// line with a place in the file, and what is fit for use is complete and
// loads the same way again.
func FuzzLoad(f *testing.F) {
	f.Add(good)
	f.Add(reference)
	for _, tt := range badFiles {
		f.Add(tt.data)
	}
	for _, tt := range fencingFiles {
		f.Add(fencingFile(tt.fencing, tt.rule))
	}
	f.Fuzz(func(t *testing.T, data string) {
		lookup := env("A", "1", "B", "{x: y}\n- z", "EMPTY", "")
		c, r := Load("f.yaml", []byte(data), lookup)
		last := strings.Count(data, "\n") + strings.Count(data, "\r") + 1
		for _, list := range [][]Problem{r.Errors, r.Warnings} {
			before := Pos{}
			for _, p := range list {
				s := p.Error()
				if p.Message == "" || strings.ContainsAny(s, "\n\r\x00\x1b") || !utf8.ValidString(s) {
					t.Errorf("not one line of text: %q", s)
				}
				if p.Pos.Line > last || p.Pos.Line > 0 && p.Pos.Col < 1 {
					t.Errorf("outside the file: %s", s)
				}
				if p.Pos.Line < before.Line || p.Pos.Line == before.Line && p.Pos.Col < before.Col {
					t.Errorf("not sorted: %s after %s", s, before)
				}
				before = p.Pos
			}
		}
		if r.Err() != nil {
			return
		}
		stores, s := 0, c.Store
		for _, there := range []bool{s.Embedded != nil, s.Memory != nil, s.Etcd != nil, s.Postgres != nil, s.Redis != nil} {
			if there {
				stores++
			}
		}
		if c.Upstream.URL == "" || stores != 1 {
			t.Error("an incomplete configuration has no error")
		}
		for i, rule := range c.Rules {
			if rule.Name == "" || len(rule.Paths) == 0 {
				t.Errorf("rule %d is incomplete and has no error", i)
			}
			checkPolicy(t, c, &c.Rules[i])
		}
		again, _ := Load("f.yaml", []byte(data), lookup)
		wantSame(t, again, c)
	})
}
