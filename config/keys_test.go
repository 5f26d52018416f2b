package config

import (
	"slices"
	"strings"
	"testing"
)

func TestBadKeys(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule string // settings after name and path, from line 6 on
		want []string
	}{
		{"neither", "mode: enforce", []string{
			`f.yaml:4:5: rules[0].key: is missing (what the path names, as in account:{id}; or token: none)`,
		}},
		{"both", "key: a\n    keys: [{key: b}]", []string{
			`f.yaml:7:11: rules[0].keys: stands beside key (one of them: key for one resource in a request, keys for several)`,
		}},
		{"none in the list", "keys: []", []string{
			`f.yaml:6:11: rules[0].keys: holds 0 keys (1 to 16, each as {key: TEMPLATE, header: NAME})`,
		}},
		{"sixteen", "keys: [" + strings.Repeat("{key: a},", 16) + "]", nil},
		{"seventeen", "keys: [" + strings.Repeat("{key: a},", 17) + "]", []string{
			`f.yaml:6:11: rules[0].keys: holds 17 keys (1 to 16, each as {key: TEMPLATE, header: NAME})`,
		}},
		{"not a list", "keys: account", []string{
			`f.yaml:6:11: rules[0].keys: is the single value "account" (a list, as in [a, b] or one item a line after -)`,
		}},
		{"templates alone", "keys: [account, {key: {a: b}}]", []string{
			`f.yaml:6:12: rules[0].keys[0]: is the single value "account" (settings, each as name: value)`,
			`f.yaml:6:27: rules[0].keys[1].key: is a group of settings (text; text that begins with {, or has a : inside { }, needs quotes, as in "{id}")`,
		}},
		{"without a template", "keys:\n      - header: X-A\n      - key: \"\"\n      - key: c", []string{
			`f.yaml:7:9: rules[0].keys[0].key: is missing (a template, as in "account:{json:/from}")`,
			`f.yaml:8:14: rules[0].keys[1].key: is missing (a template, as in "account:{json:/from}")`,
		}},
		{"headers", "holder_header: X-Who\n    keys: [{key: a, header: \"\"}, {key: b, header: X.A}, {key: c, header: x-who}, {key: d, header: Content-MD5}]", []string{
			`f.yaml:7:29: rules[0].keys[0].header: is empty (letters, digits and -, as in X-Fencing-Token)`,
			`f.yaml:7:51: rules[0].keys[1].header: "X.A" is not a header name that reaches every server as it is (letters, digits and -, as in X-Fencing-Token)`,
			`f.yaml:7:74: rules[0].keys[2].header: x-who is the holder_header (a header of its own, as in X-Fencing-Token)`,
			`f.yaml:7:99: rules[0].keys[3].header: headers Content-* mean something else (a header of its own, as in X-Fencing-Token)`,
		}},
		{"settings of the rule in a key", "keys: [{key: a, format: hex, keys: b}]", []string{
			`f.yaml:6:21: rules[0].keys[0].format: is not a setting (did you mean rules[].format?)`,
			`f.yaml:6:34: rules[0].keys[0].keys: is not a setting (did you mean key?)`,
		}},
		{"without a fence", "token: none\n    keys: [{key: a}]", []string{
			`warning: f.yaml:7:11: rules[0].keys: has no effect: the rule has token: none (leave it out)`,
		}},
		{"without a fence or a key", "token: none", nil},
		{"an unknown token", "token: some", []string{
			`f.yaml:6:12: rules[0].token: "some" is not known (required or optional or none)`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, r := Load("f.yaml", []byte(strings.Replace(good, `key: "{path}"`, tt.rule, 1)), env())
			wantLines(t, r, tt.want...)
		})
	}
}

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule string // settings beside name and path
		want []Key
	}{
		{"one", "key: a", []Key{{"a", "X-Fencing-Token"}}},
		{"one with the rule's header", "key: a, header: X-R", []Key{{"a", "X-R"}}},
		{"several", "header: X-R, keys: [{key: a}, {key: b, header: X-B}]", []Key{{"a", "X-R"}, {"b", "X-B"}}},
		{"a list of one", "keys: [{key: a}]", []Key{{"a", "X-Fencing-Token"}}},
		{"required", "token: required, key: a", []Key{{"a", "X-Fencing-Token"}}},
		{"no fence", "token: none", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustLoad(t, strings.Replace(good, "  - name: all\n    path: /*\n    key: \"{path}\"\n", "  - {name: all, path: /*, "+tt.rule+"}\n", 1), env())
			r := &c.Rules[0]
			for range 2 { // what is returned is the caller's
				got := c.Keys(r)
				if !slices.Equal(got, tt.want) {
					t.Fatalf("%q, want %q", got, tt.want)
				}
				for i := range got {
					got[i] = Key{}
				}
			}
		})
	}
}
