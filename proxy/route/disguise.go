package route

import "strings"

// disguised refuses a target that no rule covers and that only some servers
// take for one that a rule covers. The folded form is one careless reading of
// a target; where dot segments meet other departures, and where a target
// begins with two slashes, careful servers and careless ones end up in
// different places.
func (t *Table) disguised(q *question, tg target) *Refusal {
	if ambiguousDots(tg.path) {
		return refuse(PathAlias, -1, "the target has dot segments beside other departures from the canonical form, which servers resolve in different ways; send it in its canonical spelling")
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

// ambiguousDots reports whether a path has a dot segment, in any encoding,
// beside any other departure from the canonical form.
func ambiguousDots(path string) bool {
	ends := strings.NewReplacer("#", "/", "\x00", "/", "%00", "/", "%2500", "/").Replace(path)
	dots := false
	for _, part := range strings.FieldsFunc(unescapeAll(ends, false), func(r rune) bool { return strings.ContainsRune(`/\;`, r) }) {
		dots = dots || part == ".."
	}
	if !dots {
		return false
	}
	segments := strings.Split(dotted(path), "/")[1:]
	for i, seg := range segments {
		if isDots(seg) {
			continue
		}
		s := examine("/" + seg)
		if seg == "" && i < len(segments)-1 || s.problem(0) != "" && s.found != 1<<departsByForm || s.deep {
			return true
		}
	}
	return false
}
