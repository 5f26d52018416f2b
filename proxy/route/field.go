package route

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// queryValue looks a field up in a raw query. Some servers can be told to read
// it in the charset of the body.
func queryValue(query, name string, h http.Header) (value, why string) {
	f, why := findField(query, name, "the query")
	switch {
	case why != "":
		return "", why
	case !f.found:
		return "", "is missing in the query; send it once"
	case strings.IndexByte(f.raw, '+') >= 0:
		return "", "has a + in the query, which is a space to some upstreams; write %20 or %2B"
	}
	if charset := charsetOf(h); charset != "" && charset != "utf-8" && !(isASCII(f.value) && likeASCII(charset)) {
		return "", "cannot be read: Content-Type has the charset " + strconv.Quote(charset) + ", in which some upstreams read the query too; send UTF-8"
	}
	if why := besideCookie(h, name); why != "" {
		return "", why
	}
	return f.value, ""
}

// formValue looks a field up in a form, the body of a request with this query.
// Many frameworks put both into one set of fields, and not all of them prefer
// the form's.
func formValue(form, query, name string) (value, why string) {
	if !utf8.ValidString(form) {
		return "", "cannot be read: the form is not UTF-8"
	}
	f, why := findField(form, name, "the form")
	switch {
	case why != "":
		return "", why
	case !f.found:
		return "", "is missing in the form; send it once"
	}
	if f, why := findField(query, name, "the query"); f.found || why != "" {
		if why == "" {
			why = "is given in the query too; send it in the form alone"
		}
		return "", why
	}
	return f.value, ""
}

// field is one field of a query or form.
type field struct {
	found bool
	raw   string // its value as it came
	value string // decoded
}

// findField looks a field up in urlencoded text. The whole text must parse,
// and no second field may have a name that some framework takes for the same
// one (`ID`, `id[]`, `order_id` for `order.id`).
func findField(text, name, where string) (f field, why string) {
	folded := foldField(name)
	for pair := range strings.SplitSeq(text, "&") {
		if strings.IndexByte(pair, ';') >= 0 {
			return f, "cannot be read: " + where + " has a ;, which some upstreams take for &; write %3B"
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		n, err := url.QueryUnescape(rawName)
		if err != nil {
			return f, "cannot be read: " + where + " has a broken percent-escape"
		}
		v, err := url.QueryUnescape(rawValue)
		if err != nil {
			return f, "cannot be read: " + where + " has a broken percent-escape"
		}
		if !utf8.ValidString(n) {
			return f, "cannot be read: " + where + " has a name that is not UTF-8"
		}
		if !foldsToField(n, folded) {
			continue
		}
		switch {
		case f.found:
			return f, "is given twice in " + where + "; send it once"
		case n != name:
			return f, "is spelt " + strconv.Quote(n) + " in " + where + "; send it as it stands in the rule"
		case strings.IndexByte(v, 0) >= 0:
			return f, "has a NUL in " + where + ", where some upstreams end it; leave it out"
		case !utf8.ValidString(v) || strings.ContainsRune(v, utf8.RuneError):
			// Many upstreams make U+FFFD of all that is not UTF-8.
			return f, "is not UTF-8 in " + where + ", or has U+FFFD, which stands for a character that was lost; send it in UTF-8"
		case !isASCII(pair):
			// Java's own server makes a character of each byte before it decodes.
			return f, "has a raw byte that is not ASCII in " + where + ", which some upstreams read as ISO-8859-1; percent-encode it"
		}
		f = field{found: true, raw: rawValue, value: v}
	}
	return f, ""
}

// foldField makes one of all names that frameworks are known to merge: letter
// case, brackets, what follows a NUL, spaces around, a second ? in front, and
// `.` or a space for _.
func foldField(name string) string {
	name = strings.TrimLeft(strings.TrimSpace(name), "[]?")
	if i := strings.IndexAny(name, "[]\x00"); i >= 0 {
		name = name[:i]
	}
	name = lower(name)
	if strings.ContainsAny(name, ". ") {
		name = strings.NewReplacer(".", "_", " ", "_").Replace(name)
	}
	return name
}

// foldsToField reports whether a framework may take name for the field whose
// folded name is wanted. A bracket that is not closed is a `_` to some, and
// nobody knows in which order others take brackets and spaces off the ends.
func foldsToField(name, wanted string) bool {
	if foldField(name) == wanted {
		return true
	}
	return strings.ContainsAny(name, "[]") &&
		(foldField(strings.ReplaceAll(name, "[", "_")) == wanted || foldField(strings.TrimFunc(name, isBlankOrBracket)) == wanted)
}

func isBlankOrBracket(r rune) bool { return unicode.IsSpace(r) || r == '[' || r == ']' }

// hasMethodField reports whether the query carries `_method` in any spelling
// that a framework may take for it. A broken query is searched as well as it
// can be: in doubt the request counts as a write.
func hasMethodField(query string) bool {
	if len(query) < len("_method") {
		return false
	}
	for field := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' || r == '?' }) {
		name, _, _ := strings.Cut(field, "=")
		if len(name) < len("_method") {
			continue
		}
		if strings.ContainsAny(name, "%+") {
			name = strings.ReplaceAll(unescapeAll(name, false), "+", " ")
		}
		if foldsToField(name, "_method") {
			return true
		}
	}
	return false
}
