package main

// normal are the mutants of what brings a path into the canonical form, where a
// rule's path_policy asks for that, of what each policy allows and no more, and
// of how a folded form is compared.
func normal() []mutant {
	const (
		normalizeFile = "proxy/route/normalize.go"
		targetFile    = "proxy/route/target.go"
		disguiseFile  = "proxy/route/disguise.go"
		policyFile    = "proxy/route/policy.go"
	)
	policy := func(name, rule, file, old, new, test string) mutant {
		return one("path-"+name, rule, file, old, new, routePkg, "TestPolicies/"+test)
	}
	beside := func(name, rule, file, old, new, test string) mutant {
		return one("path-"+name, rule, file, old, new, routePkg, "TestPolicyBesideOthers/"+test)
	}
	fold := func(name, rule, old, new string) mutant {
		return one("fold-"+name, rule, foldFile, old, new, routePkg, "TestFold")
	}
	return []mutant{
		// normalize: true
		policy("normal-two-ways", "a form is forwarded that servers find in two ways",
			normalizeFile, "\t\tif seg == \"..\" && empty {\n", "\t\tif false && empty {\n", "normalize: true /tree//../tree/a"),
		policy("normal-dots", "two dots go up nowhere",
			normalizeFile, "\t\t\t\tout = out[:n]\n", "\t\t\t\t_ = n\n", "normalize: true /tree/a/../b/é"),
		policy("normal-unreserved", "an escaped letter stays one",
			normalizeFile, "\t\tcase unreserved[b]:\n", "\t\tcase false && unreserved[b]:\n", "normalize: true /Files/%61?q=%61"),
		policy("normal-not-ascii", "a raw byte that is not ASCII stays one",
			normalizeFile, "\t\t\tout = appendEscape(out, p[i])\n", "\t\t\tout = append(out, p[i])\n", "normalize: true /tree/a/../b/é"),
		policy("normal-unseen", "the form that is made is not looked at again",
			readingFile, "\t\t\tif problem = ns.problem(policy.allows()); problem == \"\" {\n", "\t\t\tif problem = \"\"; problem == \"\" {\n", "normalize: true /tree/%25%34%31"),
		policy("normal-as-it-came", "the target is forwarded as it came, and the key is another's",
			readingFile, "\t\t\t\tv.target = n + tg.forward[len(tg.path):]\n", "", "normalize: true /tree/a/../b/é"),

		// The others.
		policy("hidden-dots", "an encoded slash that is kept hides dots",
			spellingFile, "\t\t\tif isDots(part) {\n", "\t\t\tif false && isDots(part) {\n", "encoded_slash: segment /tree/a%2F..%2Fb"),
		policy("hidden-dots-params", "a parameter that is kept hides dots",
			spellingFile, "(1<<departsBySlash|1<<departsByParams) != 0", "(1<<departsBySlash) != 0", "params: keep /tree/..;x/b"),
		policy("kept-slash", "a slash that is kept has the key of one that parts",
			"proxy/route/escape.go", "\t\t\tout = append(out, slashMark...)\n", "\t\t\tout = append(out, b)\n", "encoded_slash: segment /tree/a%2Fb/c"),
		policy("case", "spellings that differ in letter case have two keys",
			policyFile, "\tif p.CaseInsensitive {\n", "\tif false && p.CaseInsensitive {\n", "case_insensitive: true /FILES/ABC"),
		policy("trailing-slash", "a path with a slash at its end has a key of its own",
			policyFile, "\tif p.TrailingSlash && len(path) > 1 {\n", "\tif false && p.TrailingSlash {\n", "trailing_slash: same /tree/a/"),
		beside("trespass", "a broad rule that keeps slashes swallows the paths of a strict one",
			readingFile, "\t\tv.refusal, v.claim = t.trespass(q, raw, &s, v.cover)\n", "", "slash, broad"),
		beside("policy-foreign", "a policy counts for the rules that have not got it",
			readingFile, "\t\tmine := rule != nil && rule.reading == i\n", "\t\tmine := rule != nil && (v.refusal == nil || rule.reading == i)\n", "case, broad, the narrow one as it is"),

		// What is an alias of what.
		one("path-fragment-query", "a fragment behind the query passes",
			readingFile, "strings.IndexByte(tg.query, '#') >= 0", "strings.IndexByte(tg.query, '#') > len(tg.query)",
			routePkg, "TestTargets/fragment in the query"),
		one("path-url", "a whole URL passes as a path",
			readingFile, "\tif tg.absolute {\n", "\tif false && tg.absolute {\n",
			routePkg, "TestTargets/absolute-form"),
		one("path-pri", "PRI passes as a method",
			targetFile, "\tcase method == \"PRI\":\n", "\tcase false && method == \"PRI\":\n",
			routePkg, "TestTargetForms/PRI with a path"),
		one("path-no-host", "a URL without a host passes",
			targetFile, "\t\tif end == 0 {\n", "\t\tif false && end == 0 {\n",
			routePkg, "TestTargetForms/no host"),
		one("path-several-dots", "dots beside an escaped slash pass where no rule covers what they are to one server",
			disguiseFile, "\tif ambiguousDots(path) {\n", "\tif false && ambiguousDots(path) {\n",
			routePkg, "TestTargets/dots behind an escaped slash"),
		one("path-hidden-problem", "a spelling that is not canonical passes where only its folded form is covered",
			readingFile, "\tcase problem != \"\" && foldCover != nil:\n", "\tcase problem != \"\" && foldCover != nil:\n\tcase false:\n",
			routePkg, "TestTargets/encoded slash for the slash"),

		fold("dots", "two dots go up nowhere",
			"\t\t\t\t\tout = out[:n]\n\t\t\t\t\tbreak\n", "\t\t\t\t\tbreak\n"),
		fold("fragment", "a raw # stands for itself",
			"\tp, _, _ = strings.Cut(p, \"#\")\n", ""),
		fold("control", "control bytes are kept",
			"\t\tcase n >= 1 && (b[n-1] < 0x20", "\t\tcase false && (b[n-1] < 0x20"),
		fold("overlong-three", "overlong UTF-8 of three bytes is kept",
			"\t\tcase n >= 3 && b[n-3] == 0xe0 ", "\t\tcase false && b[n-3] == 0xe0 "),
		fold("kept", "an escaped slash that is kept comes apart",
			"\t\tcase keepSlash && endsInSlashMark(b):\n\t\t\treturn b\n", ""),
		one("fold-short", "the short way to the folded form keeps a trailing slash",
			foldFile, "\t\tp = strings.TrimSuffix(p, \"/\")\n", "",
			routePkg, "TestTargets/trailing slash on static text"),
		one("fold-letters", "letters that differ in case alone are two",
			foldFile, "\treturn unicode.ToLower(least)\n", "\treturn unicode.ToLower(r)\n",
			routePkg, "TestLowerRune"),
	}
}
