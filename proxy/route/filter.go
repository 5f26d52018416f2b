package route

import (
	"fmt"
	"strings"
	"unicode"
)

// filter makes one of all spellings of a value that an upstream takes for the
// same thing. Where an upstream does tell them apart, the rule that asks for the
// filter only makes two resources wait for each other: that is safe.
type filter uint8

const (
	filterLower filter = iota // small letters, by Unicode's simple folding
	filterInt                 // a number of ASCII digits without leading zeros
	filterUUID                // small letters and hyphens
	filterTrim                // without white space at both ends
)

var filterNames = [...]string{filterLower: "lower", filterInt: "int", filterUUID: "uuid", filterTrim: "trim"}

// String is the filter's name in a template.
func (f filter) String() string { return filterNames[f] }

func parseFilter(name string) (filter, error) {
	for f, known := range filterNames {
		if name == known {
			return filter(f), nil
		}
	}
	return 0, fmt.Errorf("the filter %q is unknown (right are %s)", name, strings.Join(filterNames[:], ", "))
}

// apply returns the filtered value, or why the value is none of its kind.
func (f filter) apply(value string) (filtered, why string) {
	switch f {
	case filterLower:
		return lower(value), ""
	case filterTrim:
		return strings.TrimFunc(value, isBlank), ""
	case filterInt:
		return wholeNumber(value)
	default:
		return uuid(value)
	}
}

// isBlank is what any of the commonest languages trims: Python takes the
// separators of ASCII, JavaScript the byte order mark.
func isBlank(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f || r == 0xfeff
}

// wholeNumber takes digits alone: what a sign, a space or a fraction means
// differs from one upstream to the next.
func wholeNumber(value string) (filtered, why string) {
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return "", "is no whole number; send digits alone"
		}
	}
	if value == "" {
		return "", ""
	}
	if filtered = strings.TrimLeft(value, "0"); filtered == "" {
		return "0", ""
	}
	return filtered, ""
}

// uuid takes the forms that PostgreSQL, Python, .NET and Go take for one UUID:
// with and without hyphens, in braces, behind urn:uuid:, in either case.
// Hyphens at other places, and the short groups that Java takes, are refused.
func uuid(value string) (filtered, why string) {
	const bad = "is no UUID; send it as 8-4-4-4-12 hex digits"
	s := value
	if len(s) > len("urn:uuid:") && strings.EqualFold(s[:len("urn:uuid:")], "urn:uuid:") {
		s = s[len("urn:uuid:"):]
	}
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		if s, ok = strings.CutSuffix(inner, "}"); !ok {
			return "", bad
		}
	}
	if len(s) == 36 {
		if s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
			return "", bad
		}
		s = s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	}
	if len(s) != 32 {
		return "", bad
	}
	for i := range len(s) {
		if hexValue[s[i]] == 0 {
			return "", bad
		}
	}
	s = strings.ToLower(s)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:], ""
}
