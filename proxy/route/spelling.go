package route

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// departure is a class of ways in which a path is not canonical.
type departure uint8

const (
	departsBadly    departure = iota // no policy allows it
	departsBySlash                   // an encoded slash
	departsByParams                  // a `;`
	departsByForm                    // RFC 3986 knows one normal form of it
	numDepartures
)

// departures are a set of them, one bit each.
type departures uint8

// spelling is what one pass over a raw path finds out.
type spelling struct {
	escaped bool // it has percent-escapes
	plain   bool // its folded form is itself: no escape, no capital, no trailing slash
	deep    bool // folding may change more of it than letter case and a trailing slash

	found departures
	// The first of each class, in the order of the path.
	classes [numDepartures]departure
	reasons [numDepartures]string
	n       int
}

// depart notes a departure.
func (s *spelling) depart(class departure, why string) {
	s.plain = false
	if s.found&(1<<class) != 0 {
		return
	}
	s.found |= 1 << class
	s.classes[s.n], s.reasons[s.n] = class, why
	s.n++
}

// problem is the first departure that is not allowed, or "".
func (s *spelling) problem(allowed departures) string {
	if s.found&^allowed == 0 {
		return ""
	}
	for i := range s.n {
		if allowed&(1<<s.classes[i]) == 0 {
			return s.reasons[i]
		}
	}
	return ""
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

// examine reads a raw path once and notes where it departs from the canonical
// form: the one in which every byte has one spelling, so that the proxy and
// the upstream cannot read it differently.
func examine(p string) spelling {
	s := spelling{plain: true}
	start := 1    // of the segment
	high := false // some byte, raw or escaped, is not ASCII
	for i := 0; i < len(p); i++ {
		switch c := p[i]; byteClass[c] {
		case bytePlain:
		case byteCapital:
			s.plain = false
		case byteSlash:
			if i > 0 {
				if i == start {
					s.depart(departsByForm, "an empty segment (//)")
				} else if isDots(p[start:i]) {
					s.depart(departsByForm, "a dot segment (. or ..)")
				}
				start = i + 1
			}
		case byteEscape:
			s.escaped, s.plain = true, false
			b, ok := unhex(p, i)
			if !ok {
				s.depart(departsBadly, "a broken percent-escape")
				continue
			}
			s.escape(p, i, b, start)
			high = high || b >= 0x80
			i += 2
		case byteNamed:
			switch c {
			case '\\':
				s.depart(departsBadly, `a backslash (\)`)
			case '#':
				s.depart(departsBadly, "a fragment (#)")
			default:
				s.depart(departsByParams, "a path parameter (;)")
			}
		default:
			if c >= 0x80 {
				high = true
				s.depart(departsByForm, "a raw byte that is not ASCII (percent-encode it)")
			} else {
				s.depart(departsBadly, "a raw control byte or space")
			}
		}
	}
	if isDots(p[start:]) {
		s.depart(departsByForm, "a dot segment (. or ..)")
	}
	if len(p) > 1 && start == len(p) {
		s.plain = false
	}
	if high {
		s.text(p)
	}
	if s.found&(1<<departsBySlash|1<<departsByParams) != 0 && hidesDots(p) {
		s.depart(departsBadly, "a dot segment beside an encoded slash or a ;")
	}
	return s
}

// escape judges the escape of b at p[i:], in the segment that begins at start.
func (s *spelling) escape(p string, i int, b byte, start int) {
	switch {
	case b == '/':
		s.depart(departsBySlash, "an encoded slash (%2F)")
	case b == '\\':
		s.depart(departsBadly, "an encoded backslash (%5C)")
	case b == 0:
		s.depart(departsBadly, "an encoded NUL (%00)")
	case b < 0x20 || b == 0x7f:
		s.depart(departsBadly, "an encoded control byte")
	case b == '%':
		s.deep = true
		if _, twice := unhex("%"+p[min(i+3, len(p)):min(i+5, len(p))], 0); twice {
			s.depart(departsBadly, "a doubled percent-escape (%25 before two hex digits)")
		}
	case b == '.':
		// No more of the segment than can be dots: it is looked at for each escape.
		seg, _, _ := strings.Cut(p[start:min(start+len("%2e%2e/"), len(p))], "/")
		if isDots(dotted(seg)) {
			s.depart(departsByForm, "an encoded dot segment (%2e)")
		} else {
			s.depart(departsByForm, "an escaped unreserved character (%2E is .)")
		}
	case unreserved[b]:
		s.depart(departsByForm, "an escaped unreserved character ("+p[i:i+3]+" is "+string(b)+")")
	case b == ';':
		s.deep = true // a parameter
	}
}

// text judges a path with bytes that are not ASCII. Many servers make U+FFFD of
// all that is not UTF-8, or drop it, and two values become one.
func (s *spelling) text(p string) {
	var buf [256]byte
	decoded := appendDecoded(buf[:0], p)
	switch {
	case !utf8.Valid(decoded):
		s.depart(departsBadly, "bytes that are not UTF-8")
	case bytes.ContainsRune(decoded, utf8.RuneError):
		s.depart(departsBadly, "U+FFFD, which stands for a character that was lost")
	}
}

// hidesDots reports whether a part of a segment, cut at encoded slashes and
// parameters, is a dot segment: some servers walk up at `..%2F` and `..;x`
// although they keep both in the segment elsewhere.
func hidesDots(p string) bool {
	marks := strings.NewReplacer("%2f", ";", "%2F", ";", "%3b", ";", "%3B", ";")
	for seg := range strings.SplitSeq(marks.Replace(dotted(p)), "/") {
		if isDots(seg) {
			continue // seen already, and another departure
		}
		for part := range strings.SplitSeq(seg, ";") {
			if isDots(part) {
				return true
			}
		}
	}
	return false
}

var dots = strings.NewReplacer("%2e", ".", "%2E", ".")

func dotted(seg string) string { return dots.Replace(seg) }

func isDots(seg string) bool { return seg == "." || seg == ".." }
