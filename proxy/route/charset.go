package route

import (
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// charsetOf is the charset that Content-Type names, in small letters, or "".
// Some servers find it only in its plain spelling (not in `charset*=`), others
// wherever the word stands (in another parameter's value): where they could
// differ, it is the header as a whole, which is no charset to anybody.
func charsetOf(h http.Header) string {
	for _, line := range h["Content-Type"] {
		folded := lower(line)
		n := strings.Count(folded, "charset")
		if n == 0 {
			continue
		}
		_, params, err := mime.ParseMediaType(line)
		charset := lower(params["charset"])
		if err != nil || n > 1 || charset == "" || !strings.Contains(folded, "charset=") {
			return folded
		}
		return charset
	}
	return ""
}

// saysUTF8 reports whether every server finds the charset UTF-8: Tomcat looks
// for the word in small letters.
func saysUTF8(h http.Header) bool {
	return charsetOf(h) == "utf-8" && strings.Contains(h.Get("Content-Type"), "charset=")
}

// likeASCII reports whether text in ASCII is the same in a charset.
func likeASCII(charset string) bool {
	return charset == "us-ascii" || strings.HasPrefix(charset, "iso-8859-") || strings.HasPrefix(charset, "windows-125")
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
