package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

func pathMutations() []mutation {
	return []mutation{
		{"escape", editPath(escapeByte), 400, ""},
		{"escape of all", editPath(escapeAll), 300, ""},
		{"hex case", editPath(hexCase), 180, ""},
		{"letter case", editPath(letterCase), 100, ""},
		{"escape twice", editPath(escapeTwice), 40, ""},
		{"overlong UTF-8", editPath(overlong), 0, "these servers know that overlong UTF-8 is none, so that only dots walk past it; the fold of proxy/route guards older servers"},
		{"other letter", editPath(otherLetter), 12, ""},
		{"doubled slash", editPath(doubleSlash), 180, ""},
		{"slashes in front", editPath(slashesInFront), 80, ""},
		{"other slash", editPath(otherSlash), 100, ""},
		{"dot segment", editPath(dotSegment), 160, ""},
		{"parameter", editPath(parameter), 30, ""},
		{"tail", editPath(tail), 45, ""},
		{"NUL", editPath(nul), 12, ""},
		{"control byte", editPath(controlByte), 1, ""},
		{"raw byte", editPath(rawByte), 130, ""},
		{"not ASCII", editPath(notASCII), 0, "a byte more is another name to these servers, so that only dots walk past it"},
		{"broken escape", editPath(brokenEscape), 0, "a byte more is another name to these servers, or none"},
		{"random byte", editPath(randomByte), 0, "another byte is another name to these servers; what is left is chance"},
		{"absolute-form", absoluteForm, 160, ""},
		{"fragment", fragment, 160, ""},
	}
}

// escapeByte writes one byte, whichever, as its escape.
func escapeByte(r *rand.Rand, p string) string {
	i, ok := anyOf(r, indexes(p, func(i int) bool { return i > 0 && !inEscape(p, i) }))
	if !ok {
		return p
	}
	return splice(p, i, i+1, fmt.Sprintf(pick(r, "%%%02X", "%%%02x"), p[i]))
}

// escapeAll escapes every byte of one segment.
func escapeAll(r *rand.Rand, p string) string {
	segments := strings.Split(p, "/")
	k := r.IntN(len(segments))
	var b strings.Builder
	for i := range len(segments[k]) {
		if c := segments[k][i]; inEscape(segments[k], i) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	segments[k] = b.String()
	return strings.Join(segments, "/")
}

func swapCase(c byte) string {
	if c|0x20 >= 'a' && c|0x20 <= 'z' {
		return string(c ^ 0x20)
	}
	return string(c)
}

func hexCase(r *rand.Rand, p string) string {
	i, ok := anyOf(r, indexes(p, func(i int) bool { return inEscape(p, i) && swapCase(p[i]) != string(p[i]) }))
	if !ok {
		return p
	}
	return splice(p, i, i+1, swapCase(p[i]))
}

func letterCase(r *rand.Rand, p string) string {
	switch r.IntN(4) {
	case 0:
		return strings.ToUpper(p)
	case 1:
		return strings.ToLower(p)
	}
	i, ok := anyOf(r, indexes(p, func(i int) bool { return !inEscape(p, i) && swapCase(p[i]) != string(p[i]) }))
	if !ok {
		return p
	}
	return splice(p, i, i+1, swapCase(p[i]))
}

// escapeTwice writes an escape in place of a %, or escapes one byte twice.
func escapeTwice(r *rand.Rand, p string) string {
	if i, ok := anyOf(r, indexes(p, func(i int) bool { return p[i] == '%' })); ok && r.IntN(2) == 0 {
		return splice(p, i, i+1, "%25")
	}
	i, ok := anyOf(r, indexes(p, func(i int) bool { return i > 0 && !inEscape(p, i) }))
	if !ok {
		return p
	}
	return splice(p, i, i+1, strings.Repeat("%25", 1+r.IntN(2))+fmt.Sprintf("%02X", p[i]))
}

// overlong writes one ASCII byte in the longer forms that UTF-8 forbids, and
// in those of some vendors.
func overlong(r *rand.Rand, p string) string {
	i, ok := anyOf(r, indexes(p, func(i int) bool { return i > 0 && !inEscape(p, i) && p[i] < 0x80 }))
	if !ok {
		return p
	}
	c := p[i]
	two, three := []byte{0xc0 | c>>6, 0x80 | c&0x3f}, []byte{0xe0, 0x80 | c>>6, 0x80 | c&0x3f}
	return splice(p, i, i+1, pick(r, fmt.Sprintf("%%%02X%%%02X", two[0], two[1]), fmt.Sprintf("%%%02X%%%02X%%%02X", three[0], three[1], three[2]),
		fmt.Sprintf("%%u%04X", c), string(two)))
}

// otherLetter puts a letter that Unicode folds to the one that stands there.
func otherLetter(r *rand.Rand, p string) string {
	like := map[byte][]string{'s': {"%C5%BF", "ſ"}, 'k': {"%E2%84%AA"}, 'a': {"%EF%BD%81", "a%CC%81"}, 'i': {"%C4%B1", "%C4%B0"}, 'f': {"%EF%BC%A6"}}
	if i := strings.Index(p, "%C3%A9"); i >= 0 {
		return splice(p, i, i+6, pick(r, "%C3%89", "e%CC%81"))
	}
	i, ok := anyOf(r, indexes(p, func(i int) bool { return !inEscape(p, i) && like[p[i]] != nil }))
	if !ok {
		return p
	}
	return splice(p, i, i+1, pick(r, like[p[i]]...))
}

func slash(r *rand.Rand, p string) (int, bool) {
	return anyOf(r, indexes(p, func(i int) bool { return p[i] == '/' }))
}

func doubleSlash(r *rand.Rand, p string) string {
	i, ok := slash(r, p)
	if !ok {
		return p
	}
	return splice(p, i, i+1, pick(r, "//", "///", "/%2F", "%2f/", `/\`, `\/`))
}

// slashesInFront makes of the path what looks like a host and a path, or a
// drive: some parsers of URLs take the first segment off.
func slashesInFront(r *rand.Rand, p string) string {
	return pick(r, "/", `\`, "//", "/%2F") + pick(r, "", "x", "a.example", "x:80", "u@x", "c:", "..", "accounts") + p
}

func otherSlash(r *rand.Rand, p string) string {
	i, ok := slash(r, p)
	if !ok {
		return p
	}
	if i == 0 {
		return "/" + pick(r, "%2F", "%5C", `\`) + p[1:]
	}
	return splice(p, i, i+1, pick(r, "%2F", "%2f", "%5C", "%5c", `\`, "%E2%88%95", "%252F", ":"))
}

// dotSegment puts dot segments in, in all encodings.
func dotSegment(r *rand.Rand, p string) string {
	i, ok := slash(r, p)
	if !ok {
		return p
	}
	dot := pick(r, ".", ".", ".", "%2e", "%2E", "%252e")
	dots := pick(r, "..", "..", "..", "%2e%2e", ".%2E", "%2e.", "..;", "..;x", "%252e%252e", "...", ".. ")
	part := pick(r, "/", "/", "/", "/", "%2F", `\`, "%5C", "//")
	switch r.IntN(5) {
	case 0:
		return splice(p, i, i, "/"+dot)
	case 1:
		return p + part + pick(r, dot, dot+part, "x"+part+dots, "x"+part+dots+part)
	case 2:
		return part + dots + p
	}
	if r.IntN(2) == 0 {
		return splice(p, i, i, "/"+pick(r, "x", "accounts", "files", "x;y")+part+dots)
	}
	return splice(p, i, i, "/"+pick(r, walked...)+"/"+pick(r, "..", "..", "%2e%2e"))
}

// walked are segments that dots behind them walk out of, and that are one
// segment to some servers, and none or two to others.
var walked = []string{"", ";", "..;", `x\z`, `\`, "x%2Fz", "%2F", "x%5Cz", "x%252Fz", "%01", "%00", "x%00", "#", "x#z", "x%C0%AFz", "%3B", "%20", ".", "%2e;", "..%2F", "..%00", "%252e%252e"}

func parameter(r *rand.Rand, p string) string {
	i, ok := anyOf(r, append(indexes(p, func(i int) bool { return i > 0 && p[i] == '/' }), len(p)))
	if !ok {
		return p
	}
	return splice(p, i, i, pick(r, ";", ";v=1", ";jsessionid=A/B", "%3B", "%3bx", "%253B", ";.", ";/.."))
}

func tail(r *rand.Rand, p string) string {
	return p + pick(r, "/", "/", "/", "//", ".", "%20", "%2E", "%09", ".json", "~", "::$DATA", ":", "%2F", "/%20", "/x", "?", "&", "+")
}

func nul(r *rand.Rand, p string) string {
	i := 1 + r.IntN(len(p))
	if r.IntN(2) == 0 {
		i = len(p)
	}
	return splice(p, i, i, pick(r, "%00", "%00", "%00.txt", "%2500", "\x00", "%C0%80", "%u0000"))
}

func controlByte(r *rand.Rand, p string) string {
	i := 1 + r.IntN(len(p))
	return splice(p, i, i, pick(r, "%09", "%0a", "%0D", "%0d%0a", "%7F", "%01", "\t", "\x01", "\x7f", "\x0b", "%20", " "))
}

// rawByte undoes an escape, or changes what needs none and may have one.
func rawByte(r *rand.Rand, p string) string {
	i, ok := anyOf(r, indexes(p, func(i int) bool { return p[i] == '%' && inEscape(p, i) }))
	if !ok {
		return p
	}
	var c byte
	if _, err := fmt.Sscanf(p[i+1:i+3], "%02x", &c); err != nil {
		return p
	}
	return splice(p, i, i+3, string([]byte{c}))
}

func notASCII(r *rand.Rand, p string) string {
	i := 1 + r.IntN(len(p))
	return splice(p, i, i, pick(r, "é", "\xff", "%FF", "%C3", "%E2%80%8B", "%C2%AD", "%EF%BB%BF"))
}

func brokenEscape(r *rand.Rand, p string) string {
	i := 1 + r.IntN(len(p))
	return splice(p, i, i, pick(r, "%", "%4", "%zz", "%%", "%4%31", "%+1", "% 1"))
}

func randomByte(r *rand.Rand, p string) string {
	i := 1 + r.IntN(len(p))
	return splice(p, i, min(len(p), i+r.IntN(2)), fmt.Sprintf(pick(r, "%%%02X", "%c"), r.IntN(256)))
}

func absoluteForm(r *rand.Rand, s *spelling) bool {
	if !strings.HasPrefix(s.target, "/") {
		return false
	}
	s.target = pick(r, "http", "http", "HTTP", "https", "ftp") + pick(r, "://", "://", "://", ":", ":/", `:\\`) +
		pick(r, "a.example", "a.example", "A.Example", "a.example:80", "b.example", "u@a.example", "") + s.target
	return true
}

func fragment(r *rand.Rand, s *spelling) bool {
	i := 1 + r.IntN(len(s.target))
	if r.IntN(2) == 0 {
		i = len(s.target)
	}
	s.target = splice(s.target, i, i, pick(r, "#", "#x", "#/../y", "%23", "#?id=1"))
	return true
}
