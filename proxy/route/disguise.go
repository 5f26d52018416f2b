package route

import "strings"

// disguised refuses a target that no rule covers and that only some servers
// take for one that a rule covers. The folded form is one careless reading of
// a target; where it has something ambiguous, and where it begins with two
// slashes, careful servers and careless ones end up in different places.
func (t *Table) disguised(q *question, tg target) *Refusal {
	if why := ambiguous(tg.path); why != "" {
		return refuse(PathAlias, -1, "the target has %s; send it in its canonical spelling", why)
	}
	rest := strings.TrimLeft(tg.path, `/\`)
	if len(tg.path)-len(rest) < 2 {
		return nil
	}
	at := strings.IndexAny(rest, `/\`)
	if at < 0 {
		return nil
	}
	var v values
	if cover, _ := t.folded.find(fold(rest[at:], PathPolicy{}), &v).choose(q); cover != nil {
		return refuse(PathAlias, cover.index, "some upstreams read the two slashes at the beginning as those of a URL, and the target as %s; send it in its canonical spelling", rest[at:])
	}
	return nil
}

// ambiguous says what in a path servers read in different ways, whatever else
// they fold, or returns "". There is no one folded form of such a path, so that
// nothing tells what it is not an alias of.
func ambiguous(path string) string {
	if !strings.ContainsAny(path, "%#;\\\x00") && !strings.Contains(path, "..") {
		return "" // as mostly
	}
	if strings.IndexByte(path, '#') >= 0 {
		return "a fragment (#), which some servers take off and others keep"
	}
	for seg := range strings.SplitSeq(path, "/") {
		plain := unescape(seg, false)
		if strings.IndexByte(plain, 0) >= 0 {
			return "a NUL, where some servers end the path and which others drop"
		}
		if at := strings.IndexByte(plain, ';'); at >= 0 && strings.ContainsAny(plain[at:], `/\`) {
			return "a slash behind a ; in one segment, where a path parameter ends for some servers and goes on for others"
		}
	}
	if ambiguousDots(path) {
		return "dot segments beside other departures from the canonical form, which servers resolve in different ways"
	}
	return ""
}

// ambiguousDots reports whether a path has a dot segment, in any encoding,
// beside any other departure from the canonical form: beside dot segments in
// another encoding too, since some servers resolve before they decode.
func ambiguousDots(path string) bool {
	dots := false
	for _, part := range strings.FieldsFunc(unescape(path, false), func(r rune) bool { return strings.ContainsRune(`/\;`, r) }) {
		dots = dots || part == ".."
	}
	if !dots {
		return false
	}
	segments := strings.Split(path, "/")[1:]
	raw, encoded := false, false
	for i, seg := range segments {
		if isDots(dotted(seg)) {
			raw, encoded = raw || isDots(seg), encoded || !isDots(seg)
			continue
		}
		s := examine("/" + dotted(seg))
		if seg == "" && i < len(segments)-1 || s.problem(0) != "" && s.found != 1<<departsByForm || s.deep {
			return true
		}
	}
	return raw && encoded
}
