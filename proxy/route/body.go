package route

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep elements, objects and arrays may lie in each other.
// Parsers differ in where they give up.
const maxDepth = 100

// bodyValue is the value of a placeholder in the body, or why it has none. The
// body is read by one decoder, as strictly as it can be: what another one
// could read otherwise has no value.
func (part *keyPart) bodyValue(m *Match, r *http.Request, body []byte) (value, why string) {
	if why := unreadable(r.Header, part.from); why != "" {
		return "", why
	}
	switch part.from {
	case fromForm:
		value, why = formValue(string(body), m.query, part.name)
		if why == "" {
			why = besideCookie(r.Header, part.name)
		}
		if why == "" && !isASCII(value) && !saysUTF8(r.Header) {
			return "", "is not ASCII, and Content-Type does not say that the form is UTF-8, so that some upstreams read it as ISO-8859-1; send " + contentTypes(fromForm) + "; charset=utf-8"
		}
		return value, why
	case fromJSON:
		value, why = jsonValue(body, part.steps)
	default:
		value, why = xmlValue(body, part.steps, part.name)
	}
	if why == "" && strings.IndexByte(value, 0) >= 0 {
		return "", "has a NUL, where some upstreams end it; leave it out"
	}
	return value, why
}

// unreadable says by the headers why a body is not what a placeholder reads.
func unreadable(h http.Header, from source) string {
	for _, line := range h["Content-Encoding"] {
		if line != "" && !strings.EqualFold(line, "identity") {
			return "cannot be read: the body has Content-Encoding " + strconv.Quote(line) + "; send it uncompressed"
		}
	}
	lines := h["Content-Type"]
	if len(lines) > 1 {
		return "cannot be read: Content-Type is given twice; send it once"
	}
	if len(lines) == 0 {
		return "cannot be read: there is no Content-Type; send " + contentTypes(from)
	}
	kind, _, err := mime.ParseMediaType(lines[0])
	if err != nil || !isType(kind, from) {
		return "cannot be read: Content-Type is " + strconv.Quote(lines[0]) + "; send " + contentTypes(from)
	}
	if charset := charsetOf(h); charset != "" && charset != "utf-8" {
		return "cannot be read: the body is in the charset " + strconv.Quote(charset) + "; send it in UTF-8"
	}
	return ""
}

// isType reports whether a media type, in small letters, is what a placeholder
// reads.
func isType(kind string, from source) bool {
	switch from {
	case fromForm:
		return kind == "application/x-www-form-urlencoded"
	case fromJSON:
		return kind == "application/json" || strings.HasSuffix(kind, "+json")
	}
	return kind == "application/xml" || kind == "text/xml" || strings.HasSuffix(kind, "+xml")
}

func contentTypes(from source) string {
	switch from {
	case fromForm:
		return "application/x-www-form-urlencoded"
	case fromJSON:
		return "application/json"
	}
	return "application/xml"
}

// badText says why a body is no text that every parser reads alike.
func badText(body []byte) string {
	switch {
	case len(body) == 0:
		return "cannot be read: the request has no body"
	case strings.HasPrefix(string(body[:min(3, len(body))]), "\ufeff"):
		return "cannot be read: the body begins with a byte order mark; leave it out"
	case !utf8.Valid(body):
		return "cannot be read: the body is not UTF-8"
	}
	return ""
}

// sameName reports whether name is the wanted one, or may be taken for it
// (spelt otherwise): some decoders look past letter case.
func sameName(name, wanted string) (same bool, why string) {
	if name == wanted {
		return true, ""
	}
	if strings.ContainsAny(name, "\x00\ufffd") {
		return true, "stands beside the name " + strconv.Quote(name) + ", which some parsers cut short; send names without NUL and broken characters"
	}
	if lower(name) == lower(wanted) {
		return true, "is spelt " + strconv.Quote(name) + " in the body; send it as it stands in the rule"
	}
	return false, ""
}
