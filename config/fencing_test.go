package config

import (
	"strings"
	"testing"
)

// fencingFiles set what fencing and rules have in common; the rule is that of
// good, in lines 4 to 6 of it.
var fencingFiles = []struct {
	name    string
	fencing string // settings in line 1
	rule    string // settings in line 7, after name, path and key
	want    []string
}{
	{"epoch", "epoch: -1", "epoch: 18446744073709551616", []string{
		`f.yaml:1:18: fencing.epoch: "-1" is not a number (digits alone, 0 to 18446744073709551615)`,
		`f.yaml:8:12: rules[0].epoch: "18446744073709551616" is too large (digits alone, 0 to 18446744073709551615)`,
	}},
	{"epoch in other bases", "epoch: 0x1", "epoch: 1e3", []string{
		`f.yaml:1:18: fencing.epoch: "0x1" is not a number (digits alone, 0 to 18446744073709551615)`,
		`f.yaml:8:12: rules[0].epoch: "1e3" is not a number (digits alone, 0 to 18446744073709551615)`,
	}},
	{"no epoch", "epoch:", "", []string{
		`f.yaml:1:17: fencing.epoch: has no value (digits alone, 0 to 18446744073709551615, or leave the setting out)`,
	}},
	{"what combines", "token: required, mode: enforce, reads: fence, holder_header: X-Who, max_token: 9, max_jump: 1, epoch: 1", "mode: enforce", nil},
	{"no holder", "holder_header: \"\"", "holder_header: \"\"", nil},
	{"holder is no name", "holder_header: X_Holder", "holder_header: Cookie", []string{
		`f.yaml:1:26: fencing.holder_header: "X_Holder" is not a header name that reaches every server as it is (letters, digits and -, as in X-Fencing-Holder)`,
		`f.yaml:8:20: rules[0].holder_header: Cookie means something else in HTTP (a header of its own, as in X-Fencing-Holder)`,
	}},
	{"holder is the default token header", "holder_header: x-fencing-token", "token: required", []string{
		`f.yaml:1:26: fencing.holder_header: x-fencing-token carries the token already (a header of its own, as in X-Fencing-Holder)`,
	}},
	{"rule's holder is the token header", "header: X-T", "holder_header: x-t", []string{
		`f.yaml:8:20: rules[0].holder_header: x-t carries the token already (a header of its own, as in X-Fencing-Holder)`,
	}},
	{"rule's token header is the holder", "holder_header: X-Who", "header: X-WHO", []string{
		`f.yaml:8:13: rules[0].header: X-WHO is the holder_header (a header of its own, as in X-Fencing-Token)`,
	}},
	{"bounds", "max_token: 18446744073709551615, max_jump: 000000000000000000001", "max_jump: 1.0", []string{
		`f.yaml:1:54: fencing.max_jump: "000000000000000000001" is not a decimal token (1 to 20 digits, or "" for no bound)`,
		`f.yaml:8:15: rules[0].max_jump: "1.0" is not a decimal token (1 to 20 digits, or "" for no bound)`,
	}},
	{"hex bounds", "format: hex, max_token: 0X10, max_jump: ff", "max_token: 0x", []string{
		`f.yaml:1:35: fencing.max_token: "0X10" is not a hex token (1 to 16 hex digits, after 0x or not, or "" for no bound)`,
		`f.yaml:8:16: rules[0].max_token: "0x" is not a hex token (1 to 16 hex digits, after 0x or not, or "" for no bound)`,
	}},
	{"composite bounds", "format: composite, max_token: 7-3, max_jump: 1:0", "max_token: 7", []string{
		`f.yaml:8:16: rules[0].max_token: "7" is not a composite token (two numbers of 1 to 20 digits joined by . or : or -, or "" for no bound)`,
	}},
	{"jump of a second number", "format: composite, max_jump: 0.5", "max_jump: 3.5", []string{
		`f.yaml:1:40: fencing.max_jump: "0.5" counts from the highest token, and only the first number of a composite one is counted (as in 3.0, or "" for no bound)`,
		`f.yaml:8:15: rules[0].max_jump: "3.5" counts from the highest token, and only the first number of a composite one is counted (as in 3.0, or "" for no bound)`,
	}},
	{"bounds of zero", "max_token: 0, max_jump: 00", "format: composite\n    max_token: 0-0\n    max_jump: 0.0", []string{
		`f.yaml:1:22: fencing.max_token: "0" refuses every token above it (a higher one, or "" for no bound)`,
		`f.yaml:1:35: fencing.max_jump: "00" refuses every raise (a higher one, or "" for no bound)`,
		`f.yaml:9:16: rules[0].max_token: "0-0" refuses every token above it (a higher one, or "" for no bound)`,
		`f.yaml:10:15: rules[0].max_jump: "0.0" refuses every raise (a higher one, or "" for no bound)`,
	}},
	{"hex bound of zero", "format: hex, max_token: 0x0", "", []string{
		`f.yaml:1:35: fencing.max_token: "0x0" refuses every token above it (a higher one, or "" for no bound)`,
	}},
	{"bounds of another format", "max_token: 100, max_jump: 5", "format: hex", []string{
		`f.yaml:8:13: rules[0].format: is hex, but fencing sets max_token and max_jump for decimal tokens (max_token and max_jump in the rule too, "" for no bound)`,
	}},
	{"a bound of another format", "max_token: 100, max_jump: 5", "format: hex\n    max_token: \"\"", []string{
		`f.yaml:8:13: rules[0].format: is hex, but fencing sets max_jump for decimal tokens (max_jump in the rule too, "" for no bound)`,
	}},
	{"bounds of the rule's format", "max_token: 100, max_jump: 5", "format: hex\n    max_token: ff\n    max_jump: \"\"", nil},
	{"bounds of another format without a fence", "max_token: 100", "format: hex\n    token: none", []string{
		`warning: f.yaml:7:10: rules[0].key: has no effect: the rule has token: none (leave it out)`,
	}},
	{"bounds of an unknown format", "format: octal, max_token: 100", "format: hex", []string{
		`f.yaml:1:19: fencing.format: "octal" is not known (decimal or hex or composite)`,
	}},
	{"nothing is said of bounds without a format", "format: octal, max_token: 7.1", "max_jump: ff", []string{
		`f.yaml:1:19: fencing.format: "octal" is not known (decimal or hex or composite)`,
	}},
	{"nothing is said of bounds without the rule's format", "max_token: 7", "format: octal\n    max_jump: ff", []string{
		`f.yaml:8:13: rules[0].format: "octal" is not known (decimal or hex or composite)`,
	}},
	{"path policy", "path_policy: {}", "path_policy: {encoded_slash: keep, params: segment, normalize: yes, trailing_slash: differ, case: x}", []string{
		`f.yaml:1:11: fencing.path_policy: is not a setting (did you mean rules[].path_policy?)`,
		`f.yaml:8:34: rules[0].path_policy.encoded_slash: "keep" is not known (reject or segment)`,
		`f.yaml:8:48: rules[0].path_policy.params: "segment" is not known (reject or keep)`,
		`f.yaml:8:68: rules[0].path_policy.normalize: "yes" is not known (true or false)`,
		`f.yaml:8:89: rules[0].path_policy.trailing_slash: "differ" is not known (distinct or same)`,
		`f.yaml:8:97: rules[0].path_policy.case: is not a setting (here stand: case_insensitive, encoded_slash, normalize, params, trailing_slash)`,
	}},
	{"path policy is a word", "", "path_policy: normalize", []string{
		`f.yaml:8:18: rules[0].path_policy: is the single value "normalize" (settings, each as name: value)`,
	}},
	{"path policy in the rule itself", "", "case_insensitive: true", []string{
		`f.yaml:8:5: rules[0].case_insensitive: is not a setting (did you mean rules[].path_policy.case_insensitive?)`,
	}},
}

func TestFencing(t *testing.T) {
	for _, tt := range fencingFiles {
		t.Run(tt.name, func(t *testing.T) {
			_, r := Load("f.yaml", []byte(fencingFile(tt.fencing, tt.rule)), env())
			wantLines(t, r, tt.want...)
		})
	}
}

func fencingFile(fencing, rule string) string {
	return "fencing: {" + fencing + "}\n" + good + "    " + rule + "\n"
}

// A path policy names what it relaxes; the rest stays as without it.
func TestPathPolicyInPart(t *testing.T) {
	c := mustLoad(t, good+"    path_policy: {params: keep}\n", env())
	want := PathPolicy{EncodedSlash: SlashReject, Params: ParamsKeep, TrailingSlash: SlashDistinct}
	if got := c.Policy(&c.Rules[0]).PathPolicy; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, data := range []string{good, good + "    path_policy: {}\n"} {
		c := mustLoad(t, data, env())
		want.Params = ParamsReject
		if got := c.Policy(&c.Rules[0]).PathPolicy; got != want {
			t.Errorf("%s\n%+v, want %+v", data, got, want)
		}
	}
}

// Setting finds the place that another package's error belongs to.
func TestSetting(t *testing.T) {
	c := mustLoad(t, fencingFile("max_token: 99999999999999999999", "max_jump: 99999999999999999999"), env())
	for _, tt := range []struct{ name, path, at string }{
		{"max_jump", "rules[0].max_jump", "f.yaml:8:15"},
		{"max_token", "fencing.max_token", "f.yaml:1:22"},
		{"format", "fencing.format", "f.yaml:1:10"},
		{"settle", "upstream.settle", "f.yaml:2:11"},
		{"path_policy", "rules[0].path_policy", "f.yaml:5:5"},
	} {
		if got := c.Setting(0, tt.name); got != tt.path || c.At(got).String() != tt.at {
			t.Errorf("%s: %s at %s, want %s at %s", tt.name, got, c.At(got), tt.path, tt.at)
		}
	}
}

// Each spelling of a bound keeps its text: a YAML number would lose it.
func TestBoundsKeepTheirText(t *testing.T) {
	for format, bounds := range map[Format][]string{
		Decimal:   {"1", "007", "18446744073709551615", "99999999999999999999"},
		Hex:       {"0x1F", "1e3", "017", "DEADbeef00000001"},
		Composite: {"1.10", "1:30", "5-0", "007.0"},
	} {
		for _, bound := range bounds {
			for _, quotes := range []string{"", `"`} {
				c := mustLoad(t, strings.Replace(fencingFile("format: "+string(format)+", max_token: Q", ""), "Q", quotes+bound+quotes, 1), env())
				if got := c.Fencing.MaxToken; got != bound {
					t.Errorf("%s: %q, want %q", format, got, bound)
				}
			}
		}
	}
}
