package route

import "strings"

// target is a request target, cut from the bytes that the client sent. r.URL
// is never asked: net/http has decoded it and two spellings look alike there.
type target struct {
	path     string // raw, begins with '/', without query
	query    string // raw, without '?'
	forward  string // origin-form: what the upstream gets, byte for byte
	absolute bool   // the client sent the absolute-form
}

// splitTarget reads the origin-form or the absolute-form. In the absolute-form
// net/http has already put the target's authority into r.Host, as RFC 9112
// section 3.2.2 wants it; what is left to forward is the origin-form.
func splitTarget(method, uri string) (target, *Refusal) {
	t := target{forward: uri}
	switch {
	case method == "CONNECT":
		return t, refuse(MethodNotAllowed, -1, "CONNECT would open a tunnel past the fence; send the request itself")
	case method == "PRI":
		return t, refuse(BadRequest, -1, "PRI is no method of a request; it only opens an HTTP/2 connection")
	case uri == "*":
		return t, refuse(BadRequest, -1, "the target * names no resource; send the path of one")
	case uri == "":
		return t, refuse(BadRequest, -1, "the request has no target; send a path that begins with /")
	case uri[0] != '/':
		rest, ok := cutScheme(uri)
		if !ok {
			return t, refuse(BadRequest, -1, "the target is neither a path nor an http or https URL; send a path that begins with /")
		}
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return t, refuse(BadRequest, -1, "the target is a URL without a host; send a path that begins with /")
		}
		t.absolute = true
		t.forward = rest[end:]
		if t.forward == "" && method == "OPTIONS" {
			// RFC 9112 section 3.2.4 makes this OPTIONS *.
			return t, refuse(BadRequest, -1, "OPTIONS for a whole server names no resource; send the path of one")
		}
		if t.forward == "" || t.forward[0] != '/' {
			t.forward = "/" + t.forward
		}
	}
	t.path, t.query, _ = strings.Cut(t.forward, "?")
	return t, nil
}

func cutScheme(uri string) (rest string, ok bool) {
	for _, s := range [...]string{"http://", "https://"} {
		if len(uri) >= len(s) && strings.EqualFold(uri[:len(s)], s) {
			return uri[len(s):], true
		}
	}
	return "", false
}

// spelling is what one pass over a raw path finds out.
type spelling struct {
	problem string // why the path is not canonical, or ""
	escaped bool   // it has percent-escapes
	plain   bool   // its folded form is itself: no escape, no capital, no trailing slash
}

const (
	byteBad     = iota // control, space, not ASCII
	bytePlain          // stands for itself
	byteCapital        // stands for itself, and a small letter in the folded form
	byteSlash
	byteEscape
	byteNamed // refused with a reason of its own
)

var byteClass = func() (c [256]uint8) {
	for b := 0x21; b < 0x7f; b++ {
		c[b] = bytePlain
	}
	for b := 'A'; b <= 'Z'; b++ {
		c[b] = byteCapital
	}
	c['/'], c['%'] = byteSlash, byteEscape
	c['\\'], c['#'], c[';'] = byteNamed, byteNamed, byteNamed
	return c
}()

// examine reads a raw path once and reports its first departure from the
// canonical form: the one in which every byte has one spelling, so that the
// proxy and the upstream cannot read it differently.
func examine(p string) spelling {
	s := spelling{plain: true}
	start := 1 // of the segment
	for i := 0; i < len(p); i++ {
		switch c := p[i]; byteClass[c] {
		case bytePlain:
		case byteCapital:
			s.plain = false
		case byteSlash:
			if i > 0 {
				if i == start {
					return problem("an empty segment (//)")
				}
				if isDots(p[start:i]) {
					return problem("a dot segment (. or ..)")
				}
				start = i + 1
			}
		case byteEscape:
			s.escaped, s.plain = true, false
			b, ok := unhex(p, i)
			if !ok {
				return problem("a broken percent-escape")
			}
			if why := badEscape(p, i, b, start); why != "" {
				return problem(why)
			}
			i += 2
		case byteNamed:
			switch c {
			case '\\':
				return problem(`a backslash (\)`)
			case '#':
				return problem("a fragment (#)")
			}
			return problem("a path parameter (;)")
		default:
			if c >= 0x80 {
				return problem("a raw byte that is not ASCII (percent-encode it)")
			}
			return problem("a raw control byte or space")
		}
	}
	if isDots(p[start:]) {
		return problem("a dot segment (. or ..)")
	}
	if len(p) > 1 && start == len(p) {
		s.plain = false
	}
	return s
}

func problem(why string) spelling { return spelling{problem: why, escaped: true} }

// badEscape judges the escape of b at p[i:], in the segment that begins at
// start.
func badEscape(p string, i int, b byte, start int) string {
	switch {
	case b == '/':
		return "an encoded slash (%2F)"
	case b == '\\':
		return "an encoded backslash (%5C)"
	case b == 0:
		return "an encoded NUL (%00)"
	case b < 0x20 || b == 0x7f:
		return "an encoded control byte"
	case b == '%':
		if _, twice := unhex("%"+p[min(i+3, len(p)):min(i+5, len(p))], 0); twice {
			return "a doubled percent-escape (%25 before two hex digits)"
		}
	case b == '.':
		end := strings.IndexByte(p[start:], '/')
		if end < 0 {
			end = len(p) - start
		}
		if isDots(strings.NewReplacer("%2e", ".", "%2E", ".").Replace(p[start : start+end])) {
			return "an encoded dot segment (%2e)"
		}
		return "an escaped unreserved character (%2E is .)"
	case unreserved[b]:
		return "an escaped unreserved character (" + p[i:i+3] + " is " + string(b) + ")"
	}
	return ""
}

func isDots(seg string) bool { return seg == "." || seg == ".." }

// unhex reads the percent-escape at s[i:].
func unhex(s string, i int) (byte, bool) {
	if i+2 >= len(s) || s[i] != '%' {
		return 0, false
	}
	hi, lo := hexValue[s[i+1]], hexValue[s[i+2]]
	if hi == 0 || lo == 0 {
		return 0, false
	}
	return (hi-1)<<4 | (lo - 1), true
}

// hexValue is a hex digit's value plus 1, or 0 for every other byte.
var hexValue = func() (v [256]byte) {
	for i := range byte(16) {
		v["0123456789abcdef"[i]] = i + 1
		v["0123456789ABCDEF"[i]] = i + 1
	}
	return v
}()

// unreserved are the bytes that never need an escape (RFC 3986).
var unreserved = func() (u [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~" {
		u[c] = true
	}
	return u
}()

// decode undoes each percent-escape once. An encoded slash stays `%2F`, so
// that it never parts a segment; a broken escape stays as it is.
func decode(p string) string {
	if strings.IndexByte(p, '%') < 0 {
		return p
	}
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		b, ok := unhex(p, i)
		switch {
		case !ok:
			out = append(out, p[i])
			continue
		case b == '/':
			out = append(out, "%2F"...)
		default:
			out = append(out, b)
		}
		i += 2
	}
	return string(out)
}
