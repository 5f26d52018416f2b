package route

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// fold makes the folded form of a raw path: what the most careless upstream
// could take it for. Escapes are decoded until nothing changes (overlong UTF-8
// counts as an escape), a backslash is read as a slash, `;` parameters, empty
// and dot segments, control bytes and a trailing slash are dropped, a raw `#`
// and a NUL end the path, letters are small.
//
// A policy that keeps encoded slashes or parameters keeps them here too, as
// `%2f` and as they are.
//
// It takes time and space in proportion to the path. It is never forwarded and
// never a key: it only asks what else the target might select.
func fold(p string, policy PathPolicy) string {
	raw := unescapeAll(p, policy.EncodedSlash)
	var buf [256]byte
	out := buf[:0]
	for start := 0; start <= len(raw); {
		end := start
		for end < len(raw) && raw[end] != '/' && raw[end] != '\\' {
			end++
		}
		seg := raw[start:end]
		if !policy.Params {
			seg, _, _ = strings.Cut(seg, ";")
		}
		start = end + 1
		switch seg {
		case "", ".":
		case "..":
			for n := len(out); n > 0; {
				n--
				if out[n] == '/' {
					out = out[:n]
					break
				}
			}
		default:
			out = append(out, '/')
			out = appendLower(out, seg)
		}
	}
	if len(out) == 0 {
		return "/"
	}
	return string(out)
}

// foldCanonical is fold for a decoded canonical path whose spelling is not
// deep: there, letter case and a trailing slash are all that is left to fold.
func foldCanonical(p string) string {
	if len(p) > 1 {
		p = strings.TrimSuffix(p, "/")
	}
	return lower(p)
}

// unescapeAll is unescape of what is before a raw `#`, up to a NUL.
func unescapeAll(p string, keepSlash bool) string {
	p, _, _ = strings.Cut(p, "#")
	p, _, _ = strings.Cut(unescape(p, keepSlash), "\x00")
	return p
}

// unescape decodes until nothing changes, in one pass: an escape can only
// come to be at the end of what is already decoded, and no two overlap, so
// reducing there gives the same bytes as repeating whole passes would.
func unescape(p string, keepSlash bool) string {
	var buf [256]byte
	out := buf[:0]
	for i := range len(p) {
		out = reduce(append(out, p[i]), keepSlash)
	}
	return string(out)
}

// endsInSlashMark reports whether b ends in an encoded slash. One that came out
// of a doubled escape is one to a server behind a hop that decodes once.
func endsInSlashMark(b []byte) bool {
	n := len(b)
	return n >= 3 && b[n-3] == '%' && b[n-2] == '2' && b[n-1]|0x20 == 'f'
}

func reduce(b []byte, keepSlash bool) []byte {
	for {
		n := len(b)
		switch {
		case keepSlash && endsInSlashMark(b):
			return b
		case n >= 3 && b[n-3] == '%' && hexValue[b[n-2]] != 0 && hexValue[b[n-1]] != 0:
			b[n-3] = (hexValue[b[n-2]]-1)<<4 | (hexValue[b[n-1]] - 1)
			b = b[:n-2]
		case n >= 2 && b[n-2]&^1 == 0xc0 && b[n-1]&0xc0 == 0x80:
			b[n-2] = b[n-2]&1<<6 | b[n-1]&0x3f
			b = b[:n-1]
		case n >= 3 && b[n-3] == 0xe0 && b[n-2]&^1 == 0x80 && b[n-1]&0xc0 == 0x80:
			b[n-3] = b[n-2]&1<<6 | b[n-1]&0x3f
			b = b[:n-2]
		case n >= 1 && (b[n-1] < 0x20 && b[n-1] != 0 || b[n-1] == 0x7f):
			b = b[:n-1]
		default:
			return b
		}
	}
}

// lower folds the letter case of s. Letters that differ only in case come out
// alike, by Unicode's simple folding; bytes that are not UTF-8 stay.
func lower(s string) string {
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			var buf [256]byte
			if folded := appendLower(buf[:0], s); string(folded) != s {
				return string(folded)
			}
			return s
		}
	}
	return s
}

// lowersTo reports whether lower(s) is folded.
func lowersTo(s, folded string) bool {
	if len(s) != len(folded) {
		return lower(s) == folded
	}
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			return lower(s) == folded
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != folded[i] {
			return false
		}
	}
	return true
}

func appendLower(out []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			out = append(out, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			out = append(out, c)
		} else {
			out = utf8.AppendRune(out, lowerRune(r))
		}
		i += size
	}
	return out
}

// lowerRune is one and the same rune for all that differ in case only: the
// small letter of the lowest of them (the Kelvin sign is a k).
func lowerRune(r rune) rune {
	if r == 'ı' || r == 'İ' {
		return 'i' // Java's equalsIgnoreCase takes them for one
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return unicode.ToLower(least)
}
