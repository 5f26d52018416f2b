package route

import "slices"

// scene is a set of tokens that do something to each other.
type scene struct {
	name   string
	letter string // of the static text in the rules
	begins []string
	tokens []string
}

func scenes() []scene {
	a := []string{"/", "/a/", "/A/"}
	return []scene{
		{"slashes", "a", []string{"/", "/a/", "/A/", "//a"}, []string{"/", "a", "A", "..", "%2e", "%2F", `\`, "%5C"}},
		{"params", "a", a, []string{"/", "a", "A", ";", "%3B", "%2F", ".", "-"}},
		{"dots and params", "a", a, []string{"/", "a", "A", "..", ".", ";", "%3B", "%2F"}},
		{"nested", "a", a, []string{"/", "a", "A", "%25", "%41", "2F", "%3B", "%252F"}},
		{"ends", "a", a, []string{"/", "a", "A", "%00", "#", "%23", "%0A", ";"}},
		{"dots and ends", "a", a, []string{"/", "a", "A", "..", "%00", "%0A", "#", `\`}},
		{"numbers", "a", a, []string{"/", "a", "A", "1", "%3B", ";", "-", "%31"}},
		{"overlong", "a", a, []string{"/", "a", "A", "%C0%80", "%C0%AF", "%C1%81", "%E0%83%A9", "%C3%A9", "%EF%BF%BD"}},
		{"letters", "s", []string{"/", "/s/", "/%C5%BF/"}, []string{"/", "s", "ſ", "%E2%84%AA", "k", "%C3%A9", "%C3%89", "%FF"}},
	}
}

// targets are all with up to n tokens behind each beginning.
func (s scene) targets(n int) []string {
	level, all := s.begins, slices.Clone(s.begins)
	for range n {
		var next []string
		for _, begin := range level {
			for _, token := range s.tokens {
				next = append(next, begin+token)
			}
		}
		level = next
		all = append(all, level...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// resourceTable is a set of rules, and the method that all targets are asked
// with.
type resourceTable struct {
	name   string
	method string
	rules  []Rule
}

// held are a policy together with that of each rule, as far as they take steps
// from an upstream.
func (tab resourceTable) held(own PathPolicy) (all []PathPolicy) {
	for _, r := range tab.rules {
		p := PathPolicy{EncodedSlash: own.EncodedSlash || r.Policy.EncodedSlash, Params: own.Params || r.Policy.Params}
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// resourceTables are rules of every kind over paths that begin with a letter.
func resourceTables(letter string) (all []resourceTable) {
	at := "/" + letter
	rule := func(key string, paths ...string) Rule { return Rule{Paths: paths, Keys: keyed(key)} }
	with := func(r Rule, p PathPolicy) Rule { r.Policy = p; return r }
	only := func(r Rule, methods ...string) Rule { r.Methods = methods; return r }
	add := func(name string, rules ...Rule) { all = append(all, resourceTable{name, "PUT", rules}) }

	id, broad := rule("id:{x}", at+"/{x}"), rule("all:{path}", "/*")
	pair, expr, tree := rule("{x}:{y}", at+"/{x}-{y}"), rule("{x}", at+"/{x:[0-9;]+}"), rule("tree:{*}", at+"/*")
	static, one := rule("static", at+at), rule("one", "/*")
	add("narrow", id)
	add("broad", id, broad)
	add("static beside", id, static)
	add("static", rule("static", at))
	add("static, deeper", rule("static", at+"/a"))
	add("below", rule("id:{x}", at+"/{x}", at+"/{x}/*"))
	add("two", rule("{x}:{y}", at+"/{x}/{y}"))
	add("pair", pair)
	add("pair, broad", pair, broad)
	add("expression", expr)
	add("expression, broad", expr, broad)
	add("expression of small letters", rule("{x}", at+"/{x:[^A-Z]+}"))
	add("tree without a value", rule("tree", at+"/*"))
	add("tree", tree)
	add("tree and its root", rule("{path}", at+"/*", at))
	add("tree, broad", tree, broad)
	add("all", rule("{*}", "/*"))
	add("unfenced tree, broad", Rule{Paths: []string{at + "/*"}, NoKey: true}, broad)
	add("unfenced tree", Rule{Paths: []string{at + "/*"}, NoKey: true}, static)
	add("any", rule("{x}", "/{x}"))
	add("any with a slash", rule("{x}", "/{x}/"))
	all = append(all,
		resourceTable{"left out, broad", "DELETE", []Rule{only(id, "PUT"), broad}},
		resourceTable{"left out, covered by another", "DELETE", []Rule{only(id, "PUT"), only(rule("other", at+"/{x}"), "DELETE")}})
	for _, p := range []PathPolicy{
		{CaseInsensitive: true}, {TrailingSlash: true}, {Params: true}, {EncodedSlash: true}, {Normalize: true},
		{Normalize: true, Params: true, EncodedSlash: true},
		{Normalize: true, Params: true, EncodedSlash: true, CaseInsensitive: true, TrailingSlash: true},
	} {
		name := p.String() + ": "
		add(name+"narrow", with(id, p))
		add(name+"tree", with(tree, p))
		add(name+"broad alone", id, with(broad, p))
		add(name+"narrow alone", with(id, p), broad)
		add(name+"both", with(id, p), with(broad, p))
		add(name+"static beside", with(id, p), static)
		add(name+"under one key", with(id, p), one)
	}
	return all
}
