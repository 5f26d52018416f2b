package config

import (
	"regexp"
	"strings"
)

// fencing looks at the settings that fencing and every rule may have, each
// where it is set: a wrong default is not told of again for each rule.
func (v *validator) fencing(path string, f Fencing, sets func(name string) bool) {
	at := func(name string) string { return join(path, name) }
	if sets("header") {
		v.header(at("header"), f.Header, tokenHeader)
	}
	if sets("drain_timeout") {
		v.duration(at("drain_timeout"), f.DrainTimeout)
	}
	if sets("holder_header") && f.HolderHeader != "" {
		v.header(at("holder_header"), f.HolderHeader, holderHeader)
	}
	switch same := strings.EqualFold(f.Header, f.HolderHeader); {
	case same && sets("holder_header"):
		v.fail(at("holder_header"), f.HolderHeader+" carries the token already", "a header of its own, as in "+holderHeader)
	case same && sets("header"):
		v.fail(at("header"), f.Header+" is the holder_header", "a header of its own, as in "+tokenHeader)
	}
	if sets("max_token") {
		v.bound(at("max_token"), f.Format, f.MaxToken, "every token above it")
	}
	if sets("max_jump") {
		v.bound(at("max_jump"), f.Format, f.MaxJump, "every raise")
		v.jump(at("max_jump"), f.Format, f.MaxJump)
	}
}

func (v *validator) header(path, name, like string) {
	if message, remedy := checkHeader(name, like); message != "" {
		v.fail(path, message, remedy)
	}
}

// shapes of tokens, by format, with how an error describes them.
var shapes = map[Format]struct {
	text *regexp.Regexp
	want string
}{
	Decimal:   {regexp.MustCompile(`^[0-9]{1,20}$`), "1 to 20 digits"},
	Hex:       {regexp.MustCompile(`^(0x)?[0-9A-Fa-f]{1,16}$`), "1 to 16 hex digits, after 0x or not"},
	Composite: {regexp.MustCompile(`^[0-9]{1,20}[.:-][0-9]{1,20}$`), "two numbers of 1 to 20 digits joined by . or : or -"},
}

var zero = regexp.MustCompile(`^(0x)?[0.:-]+$`)

const noBound = `"" for no bound`

// bound looks at max_token or max_jump, "" for none. A zero is refused since
// elsewhere it means "no limit", and here the opposite.
func (v *validator) bound(path string, format Format, text, refused string) {
	if text == "" || v.unread(path, "format") {
		return
	}
	switch shape := shapes[format]; {
	case !shape.text.MatchString(text):
		v.fail(path, quote(text)+" is not a "+string(format)+" token", shape.want+", or "+noBound)
	case zero.MatchString(text):
		v.fail(path, quote(text)+" refuses "+refused, "a higher one, or "+noBound)
	}
}

// jump refuses a second number that would not count: a composite token whose
// first number grows may begin anywhere with its second.
func (v *validator) jump(path string, format Format, text string) {
	if format != Composite || text == "" || v.unread(path, "format") {
		return
	}
	if i := strings.IndexAny(text, ".:-"); strings.Trim(text[i+1:], "0") != "" {
		v.fail(path, quote(text)+" counts from the highest token, and only the first number of a composite one is counted", "as in 3.0, or "+noBound)
	}
}

// unread reports whether what decides name beside path could not be read, so
// that nothing can be said of what depends on it.
func (v *validator) unread(path, name string) bool {
	own := join(parent(path), name)
	if v.cfg.given(own) {
		return v.bad[own]
	}
	return v.bad[join("fencing", name)]
}
