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
	line := strings.Join(h["Content-Type"], ", ") // two lines parse as none
	folded := lower(line)
	n := strings.Count(folded, "charset")
	if n == 0 {
		return ""
	}
	_, params, err := mime.ParseMediaType(line)
	charset := lower(params["charset"])
	if err != nil || n > 1 || charset == "" || !strings.Contains(folded, "charset=") {
		return folded
	}
	return charset
}

// saysUTF8 reports whether every server finds the charset UTF-8: Tomcat looks
// for the word in small letters.
func saysUTF8(h http.Header) bool {
	return charsetOf(h) == "utf-8" && strings.Contains(h.Get("Content-Type"), "charset=")
}

// likeASCII reports whether text in ASCII is the same in a charset. It is not
// in UTF-16, EBCDIC, UTF-7 and what has shifts (ISO-2022), and neither has
// Shift_JIS all of it.
func likeASCII(charset string) bool {
	switch charset {
	case "us-ascii", "ascii", "utf8", "latin1", "gbk", "gb2312", "gb18030", "big5":
		return true
	}
	for _, family := range [...]string{"iso-8859-", "windows-125", "koi8-", "euc-"} {
		if strings.HasPrefix(charset, family) {
			return true
		}
	}
	return false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
