package route

import "strings"

// PathPolicy says where the upstream of a rule is known to read a target in
// one way only, although the canonical form does not allow it. Each field
// relaxes one thing and nothing else; the zero value relaxes nothing. It is
// part of the Fingerprint, because it decides keys.
type PathPolicy struct {
	// EncodedSlash (`encoded_slash: segment`): a %2F stays inside its segment
	// and belongs to the value; patterns may have %2F in their static text.
	EncodedSlash bool
	// Params (`params: keep`): a `;` belongs to the value.
	Params bool
	// Normalize (`normalize: true`): dot segments, empty segments, escaped
	// unreserved characters, raw bytes that are not ASCII and the absolute-form
	// are brought into the canonical form, and that form is forwarded. What two
	// servers would bring into two forms stays refused: `\`, `#`, NUL, control
	// bytes, and broken or doubled escapes.
	Normalize bool
	// CaseInsensitive (`case_insensitive: true`): letter case does not count,
	// in static text nor in values; keys are made of small letters.
	CaseInsensitive bool
	// TrailingSlash (`trailing_slash: same`): one trailing slash does not
	// count, neither for the rule nor in {path} and {*}.
	TrailingSlash bool
}

// String lists what is relaxed as it stands in the configuration; "" is the
// zero value.
func (p PathPolicy) String() string {
	var set []string
	for _, field := range []struct {
		on   bool
		text string
	}{
		{p.CaseInsensitive, "case_insensitive: true"},
		{p.EncodedSlash, "encoded_slash: segment"},
		{p.Normalize, "normalize: true"},
		{p.Params, "params: keep"},
		{p.TrailingSlash, "trailing_slash: same"},
	} {
		if field.on {
			set = append(set, field.text)
		}
	}
	return strings.Join(set, ", ")
}

// allows are the departures from the canonical form that the policy keeps as
// they are.
func (p PathPolicy) allows() departures {
	var d departures
	if p.EncodedSlash {
		d |= 1 << departsBySlash
	}
	if p.Params {
		d |= 1 << departsByParams
	}
	return d
}

// relax undoes what the policy lets a canonical, decoded path vary in: all
// spellings that the policy makes one come out alike.
func (p PathPolicy) relax(path string) string {
	if p.TrailingSlash && len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	if p.CaseInsensitive {
		path = lower(path)
	}
	return path
}
