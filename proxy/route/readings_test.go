package route

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This is the reference for what upstreams may make of a target. It shares no
// code with fold: a step is one careless thing that some server, framework or
// hop is known to do, and a reading is what any of them leave of a target, each
// done or not, in any order, as often as they like.

type step struct {
	name string
	do   func(string) string
}

// heldSlash stands for the slash of a %2F that stayed inside its segment.
const heldSlash = "\uf8ff"

// steps are those that an upstream may take whose rule has the policy.
func steps(policy PathPolicy) []step {
	all := []step{
		{"decoded, %2F held", func(p string) string { return decodeOnce(p, heldSlash) }},
		{"overlong UTF-8 decoded", decodeOverlong},
		{"broken UTF-8 replaced", func(p string) string { return strings.ToValidUTF8(p, "\ufffd") }},
		{`\ as /`, func(p string) string { return strings.ReplaceAll(p, `\`, "/") }},
		{"empty segments merged", mergeSlashes},
		{"dot segments resolved", resolveDots},
		{"trailing slash dropped", func(p string) string {
			if len(p) > 1 {
				return strings.TrimSuffix(p, "/")
			}
			return p
		}},
		{"control bytes dropped", dropControls},
		{"cut at NUL", func(p string) string { p, _, _ = strings.Cut(p, "\x00"); return p }},
		{"ASCII case folded", func(p string) string {
			return strings.Map(func(r rune) rune {
				if 'A' <= r && r <= 'Z' {
					r |= 0x20
				}
				return r
			}, p)
		}},
		{"Unicode case folded", foldRunes},
	}
	if !policy.EncodedSlash {
		all = append(all, step{"decoded", func(p string) string { return decodeOnce(p, "/") }})
	}
	if !policy.Params {
		all = append(all, step{"parameters dropped", dropParams})
	}
	return all
}

// interner numbers texts, so that equal readings are found fast.
type interner struct {
	texts []string
	ids   map[string]int
}

func (in *interner) id(text string) int {
	id, ok := in.ids[text]
	if !ok {
		if in.ids == nil {
			in.ids = map[string]int{}
		}
		id = len(in.texts)
		in.ids[text] = id
		in.texts = append(in.texts, text)
	}
	return id
}

// readings are all readings of a raw path, by their numbers.
func (in *interner) readings(path string, steps []step) []int {
	all := []int{in.id(path)}
	if cut, _, found := strings.Cut(path, "#"); found {
		all = append(all, in.id(cut)) // by who takes a fragment off, before anything else
	}
	if rest := strings.TrimLeft(path, `/\`); len(path)-len(rest) >= 2 && strings.ContainsAny(rest, `/\`) {
		all = append(all, in.id(rest[strings.IndexAny(rest, `/\`):])) // by who takes //host for that of a URL
	}
	for i := 0; i < len(all); i++ {
		for _, s := range steps {
			if read := in.id(s.do(in.texts[all[i]])); !slices.Contains(all, read) {
				all = append(all, read)
			}
		}
	}
	return all
}

func decodeOnce(p, slash string) string {
	if !strings.Contains(p, "%") {
		return p
	}
	var out strings.Builder
	for i := 0; i < len(p); i++ {
		b := 0
		if p[i] == '%' && i+2 < len(p) {
			for _, digit := range strings.ToLower(p[i+1 : i+3]) {
				d := strings.IndexRune("0123456789abcdef", digit)
				if d < 0 {
					b = -1
				}
				if b >= 0 {
					b = b<<4 | d
				}
			}
		} else {
			b = -1
		}
		switch {
		case b < 0:
			out.WriteByte(p[i])
			continue
		case b == '/':
			out.WriteString(slash)
		default:
			out.WriteByte(byte(b))
		}
		i += 2
	}
	return out.String()
}

// decodeOverlong reads UTF-8 as decoders do that do not ask whether a rune is
// spelt in more bytes than it needs.
func decodeOverlong(p string) string {
	var out strings.Builder
	for i := 0; i < len(p); {
		n, r := 0, rune(0)
		switch c := p[i]; {
		case c&0xe0 == 0xc0:
			n, r = 1, rune(c&0x1f)
		case c&0xf0 == 0xe0:
			n, r = 2, rune(c&0x0f)
		case c&0xf8 == 0xf0:
			n, r = 3, rune(c&0x07)
		}
		if i+n >= len(p) {
			n = 0
		}
		for k := 1; k <= n; k++ {
			if p[i+k]&0xc0 != 0x80 {
				n = 0
			}
			r = r<<6 | rune(p[i+k]&0x3f)
		}
		if n == 0 || utf8.RuneLen(r) < 0 {
			out.WriteByte(p[i])
			i++
			continue
		}
		out.WriteRune(r)
		i += n + 1
	}
	return out.String()
}

func dropParams(p string) string {
	if !strings.Contains(p, ";") {
		return p
	}
	segments := strings.Split(p, "/")
	for i, seg := range segments {
		segments[i], _, _ = strings.Cut(seg, ";")
	}
	return strings.Join(segments, "/")
}

func mergeSlashes(p string) string {
	for strings.Contains(p, "//") {
		p = strings.ReplaceAll(p, "//", "/")
	}
	return p
}

// resolveDots is RFC 3986, section 5.2.4.
func resolveDots(p string) string {
	if !strings.Contains(p, ".") || !strings.HasPrefix(p, "/") {
		return p
	}
	var out []string
	segments := strings.Split(p[1:], "/")
	for i, seg := range segments {
		switch seg {
		case ".", "..":
			if seg == ".." && len(out) > 0 {
				out = out[:len(out)-1]
			}
			if i == len(segments)-1 {
				out = append(out, "")
			}
		default:
			out = append(out, seg)
		}
	}
	return "/" + strings.Join(out, "/")
}

func dropControls(p string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return -1
		}
		return r
	}, p)
}

// foldRunes makes one of all letters that differ in case only, by going up and
// down; what is not UTF-8 stays.
func foldRunes(p string) string {
	var out strings.Builder
	for i, r := range p {
		if r == utf8.RuneError && !strings.HasPrefix(p[i:], "\ufffd") {
			out.WriteByte(p[i])
			continue
		}
		out.WriteRune(unicode.ToLower(unicode.ToUpper(r)))
	}
	return out.String()
}
