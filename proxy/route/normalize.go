package route

import (
	"bytes"
	"strings"
)

// normalize brings a raw path into the canonical form, as RFC 3986 section
// 6.2.2 has it: escapes of unreserved characters are undone, other escapes are
// in capitals, raw bytes that are not ASCII are escaped; then dot segments and
// empty segments go. Encoded slashes and `;` stay as they are. It returns ""
// where servers go two ways: `/a//..` is /a/ to RFC 3986, and / to those that
// take doubled slashes for one first.
//
// The result is forwarded in place of the path, so that it need not be what
// every server would make of the path; but it must be canonical itself, which
// the caller asks examine: `%25%34%31` comes out as `%2541`.
func normalize(p string) string {
	out := make([]byte, 0, len(p)+1)
	rest := unescapeUnreserved(p)
	empty := false // the segment before was
	for start := 1; start <= len(rest); {
		end := strings.IndexByte(rest[start:], '/')
		last := end < 0
		if last {
			end = len(rest) - start
		}
		seg := rest[start : start+end]
		start += end + 1
		if seg == ".." && empty {
			return ""
		}
		empty = seg == ""
		switch seg {
		case "..":
			if n := bytes.LastIndexByte(out, '/'); n >= 0 {
				out = out[:n]
			}
		case "", ".":
		default:
			out = append(out, '/')
			out = append(out, seg...)
			continue
		}
		if last {
			out = append(out, '/') // what ends in a slash or in dots names a directory
		}
	}
	if len(out) == 0 {
		return "/"
	}
	return string(out)
}

// unescapeUnreserved spells each byte of a path in its one way.
func unescapeUnreserved(p string) string {
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		b, ok := unhex(p, i)
		switch {
		case !ok && p[i] < 0x80:
			out = append(out, p[i])
			continue
		case !ok:
			out = appendEscape(out, p[i])
			continue
		case unreserved[b]:
			out = append(out, b)
		default:
			out = appendEscape(out, b)
		}
		i += 2
	}
	return string(out)
}

func appendEscape(out []byte, b byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(out, '%', digits[b>>4], digits[b&15])
}
