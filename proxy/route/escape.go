package route

import "strings"

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
// that it never parts a segment; a broken escape stays as it is. In a decoded
// canonical path `%2F` always is an encoded slash: `%252F` is none.
func decode(p string) string {
	if strings.IndexByte(p, '%') < 0 {
		return p
	}
	var buf [256]byte
	return string(appendDecoded(buf[:0], p))
}

func appendDecoded(out []byte, p string) []byte {
	for i := 0; i < len(p); i++ {
		b, ok := unhex(p, i)
		switch {
		case !ok:
			out = append(out, p[i])
			continue
		case b == '/':
			out = append(out, slashMark...)
		default:
			out = append(out, b)
		}
		i += 2
	}
	return out
}

// slashMark is what decode leaves of an encoded slash. Folding letter case
// makes %2f of it.
const slashMark = "%2F"

// isSlashMark reports whether s[i:] begins with an encoded slash.
func isSlashMark(s string, i int) bool {
	return s[i] == '%' && i+2 < len(s) && s[i+1] == '2' && s[i+2]|0x20 == 'f'
}

// unmark makes a plain slash of each encoded one in a parameter's value.
func unmark(value string) string {
	if strings.IndexByte(value, '%') < 0 {
		return value
	}
	return strings.NewReplacer("%2F", "/", "%2f", "/").Replace(value)
}
