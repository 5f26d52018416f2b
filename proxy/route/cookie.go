package route

import (
	"net/http"
	"strings"
)

// besideCookie says that a cookie has a field's name: without a php.ini PHP
// puts cookies among the fields of $_REQUEST, and lets them win.
func besideCookie(h http.Header, name string) (why string) {
	lines := h["Cookie"]
	if len(lines) == 0 {
		return ""
	}
	folded := foldField(name)
	for _, line := range lines {
		for pair := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ';' || r == ',' }) {
			n, _, _ := strings.Cut(pair, "=")
			if strings.ContainsAny(n, "%+") {
				n = strings.ReplaceAll(unescapeAll(n, false), "+", " ")
			}
			if foldsToField(n, folded) {
				return "is the name of a cookie too, which some upstreams put among the fields; leave the cookie out"
			}
		}
	}
	return ""
}
