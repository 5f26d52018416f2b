package main

const (
	tokenPkg     = "./tokenstore"
	formatFile   = "tokenstore/format.go"
	routePkg     = "./proxy/route"
	spellingFile = "proxy/route/spelling.go"
	foldFile     = "proxy/route/fold.go"
	readingFile  = "proxy/route/reading.go"
	disguiseFile = "proxy/route/disguise.go"
)

// tokens are the mutants of the token parser.
func tokens() []mutant {
	token := func(name, rule, old, new, test string) mutant {
		return one("token-"+name, rule, formatFile, old, new, tokenPkg, test)
	}
	return []mutant{
		token("rounded", "a decimal token is cut to what fits",
			"\tn, err := strconv.ParseUint(s, base, 64)\n\tif err != nil {\n", "\tn, err := strconv.ParseUint(s, base, 64)\n\tif false && err != nil {\n", "TestParse"),
		token("long", "a token may have any number of leading zeros",
			"\tcase len(s) > longest:\n", "\tcase false && len(s) > longest:\n", "TestParse"),
		token("hex-length", "a hex token may have as many digits as a decimal one",
			"\t\tlongest = 16\n", "\t\tlongest = 20\n", "TestParse"),
		token("empty", "an empty number is 0",
			"\t\treturn 0, errors.New(\"a number is empty\")\n", "\t\treturn 0, nil\n", "TestParse"),
		token("base", "a hex token is read as a decimal one",
			"parseNumber(strings.TrimPrefix(s, \"0x\"), 16)", "parseNumber(strings.TrimPrefix(s, \"0x\"), 10)", "TestParse"),
		token("0x", "0x may stand twice in front of a hex token",
			"strings.TrimPrefix(s, \"0x\")", "strings.ReplaceAll(s, \"0x\", \"\")", "TestParse"),
		token("separator", "a comma joins a composite token",
			"strings.IndexAny(s, \".:-\")", "strings.IndexAny(s, \".:-,\")", "TestParse"),
		token("minor", "the second number of a composite token does not count",
			"\t\t\tt.Minor, err = parseNumber(s[at+1:], 10)\n", "\t\t\t_, err = parseNumber(s[at+1:], 10)\n", "TestParse"),
		token("guessed", "0x is hex in a decimal rule",
			"\tdefault:\n\t\tt.Major, err = parseNumber(s, 10)\n", "\tdefault:\n\t\tif strings.HasPrefix(s, \"0x\") {\n\t\t\treturn Hex.parse(s)\n\t\t}\n\t\tt.Major, err = parseNumber(s, 10)\n", "TestParse"),
		token("epoch", "a mark's epoch is not read",
			"\tif t.Epoch, err = parseNumber(epoch, 10); err != nil {\n", "\tif _, err = parseNumber(epoch, 10); err != nil {\n", "TestPrint"),
		token("print-case", "hex marks are printed without 0x",
			"append(b, \"0x\"...)", "append(b, \"\"...)", "TestPrint"),
	}
}

// paths are the mutants of what counts as the same resource: each lets a
// spelling pass that some server takes for another one's resource.
func paths() []mutant {
	target := func(name, rule, file, old, new, test string) mutant {
		return one("path-"+name, rule, file, old, new, routePkg, "TestTargets/"+test)
	}
	fold := func(name, rule, old, new string) mutant {
		return one("fold-"+name, rule, foldFile, old, new, routePkg, "TestFold")
	}
	return []mutant{
		target("empty", "an empty segment passes",
			spellingFile, "\t\t\t\tif i == start {\n", "\t\t\t\tif false {\n", "empty segment"),
		target("dots", "a dot segment passes",
			spellingFile, "\t\t\t\t} else if isDots(p[start:i]) {\n", "\t\t\t\t} else if false {\n", "dots"),
		target("last-dots", "a dot segment at the end passes",
			spellingFile, "\tif isDots(p[start:]) {\n", "\tif false {\n", "dots at the end"),
		target("encoded-dots", "an encoded dot segment is an escaped letter like any other",
			spellingFile, "\t\tif isDots(dotted(seg)) {\n", "\t\tif false && isDots(dotted(seg)) {\n", "encoded dots"),
		target("slash", "an encoded slash passes",
			spellingFile, "\tcase b == '/':\n", "\tcase false && b == '/':\n", "encoded slash"),
		target("backslash", "an encoded backslash passes",
			spellingFile, "\tcase b == '\\\\':\n", "\tcase false && b == '\\\\':\n", "encoded backslash"),
		target("raw-backslash", "a backslash stands for itself",
			spellingFile, "byteNamed, byteNamed, byteNamed\n", "bytePlain, byteNamed, byteNamed\n", "raw backslash"),
		target("nul", "an encoded NUL passes",
			spellingFile, "\tcase b == 0:\n\t\ts.depart(departsBadly, \"an encoded NUL (%00)\")\n\tcase b < 0x20 ", "\tcase b != 0 && b < 0x20 ", "NUL"),
		target("control", "an encoded control byte passes",
			spellingFile, "\tcase b < 0x20 || b == 0x7f:\n", "\tcase b == 0x7f:\n", "line feed"),
		target("raw-control", "a raw control byte passes",
			spellingFile, "\tfor b := 0x21; b < 0x7f; b++ {\n", "\tfor b := 1; b < 0x7f; b++ {\n", "raw control byte"),
		target("not-ascii", "a raw byte that is not ASCII passes",
			spellingFile, "\tfor b := 0x21; b < 0x7f; b++ {\n", "\tfor b := 0x21; b <= 0xff; b++ {\n", "raw not ASCII"),
		target("broken", "a broken escape passes",
			spellingFile, "\t\t\t\ts.depart(departsBadly, \"a broken percent-escape\")\n", "", "broken escape"),
		target("doubled", "a doubled escape passes",
			spellingFile, "twice := unhex(\"%\"+p[min(i+3, len(p)):min(i+5, len(p))], 0); twice {", "twice := unhex(\"%\"+p[min(i+3, len(p)):min(i+5, len(p))], 0); false && twice {", "doubled escape of a letter"),
		target("unreserved", "an escaped letter passes",
			spellingFile, "\tcase unreserved[b]:\n", "\tcase false && unreserved[b]:\n", "escaped letter in the value"),
		target("params", "a parameter passes",
			spellingFile, "\t\t\t\ts.depart(departsByParams, \"a path parameter (;)\")\n", "", "parameter"),
		target("fragment", "a fragment passes",
			spellingFile, "\t\t\t\ts.depart(departsBadly, \"a fragment (#)\")\n", "", "fragment"),
		target("alias-rule", "the spelling of another rule passes",
			readingFile, "\t\tv.refuse(PathAlias, &there.rules[0], ", "\t\t_ = refuse(PathAlias, 0, ", "capitals in the text"),
		target("alias-key", "the spelling of another key passes",
			readingFile, "\tcase there != nil && !sameKeys(", "\tcase false && !sameKeys(", "escaped semicolon"),
		target("alias-none", "what folds to no rule's path passes",
			readingFile, "\tcase there == nil && !v.cover.rule.NoKey:\n", "\tcase there == nil:\n\t\treturn\n", "nothing but a parameter"),
		target("not-utf8", "bytes that are not UTF-8 pass",
			spellingFile, "\tcase !utf8.Valid(decoded):\n", "\tcase false && !utf8.Valid(decoded):\n", "not UTF-8"),
		target("lost", "U+FFFD passes",
			spellingFile, "\tcase bytes.ContainsRune(decoded, utf8.RuneError):\n", "\tcase false && bytes.ContainsRune(decoded, utf8.RuneError):\n", "a lost character"),
		target("ambiguous-slash", "a slash behind a parameter passes where servers do not agree on the parameter's end",
			disguiseFile, "at >= 0 && strings.ContainsAny(plain[at:], `/\\`)", "false && at >= 0", "a slash behind a parameter"),
		target("ambiguous-nul", "a NUL passes where servers do not agree on the path's end",
			disguiseFile, "\t\tif strings.IndexByte(plain, 0) >= 0 {\n", "\t\tif false {\n", "a NUL in the middle"),
		target("ambiguous-fragment", "a fragment passes where servers do not agree on the path's end",
			disguiseFile, "\tif strings.IndexByte(path, '#') >= 0 {\n", "\tif false {\n", "a fragment for a value"),
		target("ambiguous-dots", "dots in two encodings are resolved at once",
			disguiseFile, "\treturn raw && encoded\n", "\treturn false\n", "dots in two encodings"),
		one("path-objection", "the word of one rule's reading counts more than that of another's",
			readingFile, "\t\t\tif !o.claim.takesIn(own.pattern()) {\n", "\t\t\tif false && !o.claim.takesIn(own.pattern()) {\n",
			routePkg, "TestPolicyBesideOthers/params, narrow, a slash more"),
		target("authority", "two slashes that servers take for those of a URL pass",
			disguiseFile, "\tif len(tg.path)-len(rest) < 2 {\n", "\tif true {\n", "two slashes as an authority"),
		fold("once", "escapes are decoded once",
			"\t\t\tb = b[:n-2]\n\t\tcase n >= 2", "\t\t\treturn b[:n-2]\n\t\tcase n >= 2"),
		fold("case", "letter case is kept",
			"\t\t\tout = appendLower(out, seg)\n", "\t\t\tout = append(out, seg...)\n"),
		fold("params", "parameters are kept",
			"\t\t\tseg, _, _ = strings.Cut(seg, \";\")\n", ""),
		fold("backslash", "a backslash is no slash",
			"raw[end] != '/' && raw[end] != '\\\\' {", "raw[end] != '/' {"),
		fold("overlong", "overlong UTF-8 is kept",
			"\t\tcase n >= 2 && b[n-2]&^1 == 0xc0 ", "\t\tcase false && b[n-2]&^1 == 0xc0 "),
		fold("nul", "what stands behind a NUL counts",
			"\tp, _, _ = strings.Cut(unescape(p, keepSlash), \"\\x00\")\n", "\tp = unescape(p, keepSlash)\n"),
		one("fold-held", "a slash that stays in its segment parts segments in the folded form",
			foldFile, "\t\tcase keepSlash && endsInSlashMark(b):\n", "\t\tcase false && endsInSlashMark(b):\n",
			routePkg, "TestPolicyBesideOthers/slash, narrow, doubled"),
		one("key-fraction", "a fraction counts that most parsers round to another number",
			"proxy/route/json.go", "\treturn err == nil && strconv.FormatFloat(f, 'f', -1, 64) == number\n", "\treturn err == nil && f != 0 && !strings.HasSuffix(number, \"0\")\n",
			routePkg, "TestBodyKeys/fraction that is none"),
		one("key-declaration", "an XML declaration may name another encoding",
			"proxy/route/xml.go", "\t\tcase !declaration.Match(token.Inst):\n", "\t\tcase false && !declaration.Match(token.Inst):\n",
			routePkg, "TestBodyKeys/XML other encoding, spaced"),
		one("key-value-utf8", "a field of a query may have bytes that are not UTF-8",
			"proxy/route/field.go", "\t\tcase !utf8.ValidString(v) || strings.ContainsRune(v, utf8.RuneError):\n", "\t\tcase false:\n",
			routePkg, "TestKeyParts/query not UTF-8"),
		one("key-name-utf8", "a field's name may be overlong UTF-8",
			"proxy/route/field.go", "\t\tif !utf8.ValidString(n) {\n", "\t\tif false {\n",
			routePkg, "TestKeyParts/query name in overlong UTF-8"),
		one("key-form-charset", "a form in no charset may have bytes that are not ASCII",
			"proxy/route/body.go", "\t\tif why == \"\" && !isASCII(value) && !saysUTF8(r.Header) {\n", "\t\tif false {\n",
			routePkg, "TestBodyKeys/form in no charset"),
		one("key-charset-word", "a charset counts however the word is spelt",
			"proxy/route/charset.go", "charsetOf(h) == \"utf-8\" && strings.Contains(h.Get(\"Content-Type\"), \"charset=\")\n", "charsetOf(h) == \"utf-8\"\n",
			routePkg, "TestBodyKeys/form in UTF-8, in capitals"),
		one("key-charset-elsewhere", "the word charset in another parameter is not looked for",
			"proxy/route/charset.go", "\tif err != nil || n > 1 || charset == \"\" ||", "\tif err != nil ||",
			routePkg, "TestBodyKeys/form in two charsets"),
		one("key-query-charset", "a query is read whatever the body's charset",
			"proxy/route/field.go", "\tif charset := charsetOf(h); charset != \"\" && ", "\tif charset := charsetOf(h); false && charset != \"\" && ",
			routePkg, "TestQueryBesideCharset"),
		one("key-raw-byte", "a field may have raw bytes that are not ASCII",
			"proxy/route/field.go", "\t\tcase !isASCII(pair):\n", "\t\tcase false:\n",
			routePkg, "TestBodyKeys/form with a raw byte"),
		one("key-question", "a second ? hides a field's name",
			"proxy/route/field.go", "strings.TrimLeft(strings.TrimSpace(name), \"[]?\")", "strings.TrimLeft(strings.TrimSpace(name), \"[]\")",
			routePkg, "TestFormBesideQuery"),
		one("key-boolean", "JSON's true is a name",
			"proxy/route/json.go", "\t\tw.take(steps, \"\", false, \"is true or false", "\t\tw.take(steps, strconv.FormatBool(token), true, \"is true or false",
			routePkg, "TestBodyKeys/boolean"),
		one("key-cookie", "a cookie of a field's name is not looked for in a query's rule",
			"proxy/route/field.go", "\tif why := besideCookie(h, name); why != \"\" {\n", "\tif why := besideCookie(h, name); false {\n",
			routePkg, "TestFieldBesideCookie"),
		one("key-cookie-form", "a cookie of a field's name is not looked for in a form's rule",
			"proxy/route/body.go", "\t\t\twhy = besideCookie(r.Header, part.name)\n", "\t\t\twhy = \"\"\n",
			routePkg, "TestFieldBesideCookie"),
		one("path-absolute", "an absolute target's path is not what is forwarded",
			"proxy/route/target.go", "\t\tt.forward = rest[end:]\n", "\t\tt.forward = rest\n",
			routePkg, "TestTargetForms/absolute write elsewhere"),
		one("path-connect", "CONNECT passes",
			"proxy/route/target.go", "\tcase method == \"CONNECT\":\n", "\tcase false && method == \"CONNECT\":\n",
			routePkg, "TestTargetForms/CONNECT with a path"),
	}
}

// limits are the mutants of what bounds the store.
func limits() []mutant {
	newKeysFile := "proxy/gate/newkeys.go"
	return []mutant{
		one("keys-raised", "limits.max_keys: what is refused is raised",
			"proxy/gate/enter.go", "\t\tif err = t.reserve(nil); err == nil {\n\t\t\tmarks = t.lift()\n\t\t}\n", "\t\tmarks = t.lift()\n\t\terr = t.reserve(nil)\n",
			gatePkg, "TestTooManyKeys"),
		one("keys-known", "limits.max_keys: keys with a record are refused too",
			newKeysFile, " && !c.entry.durable.exists", "",
			gatePkg, "TestTooManyKeys"),
		one("keys-concurrent", "limits.max_keys: raises that are under way do not count",
			newKeysFile, "g.count.Keys()+all > limit", "g.count.Keys()+min(all, n) > limit",
			gatePkg, "TestTooManyKeysConcurrent"),
		one("keys-kept", "limits.max_keys: a raise that failed keeps its place",
			"proxy/gate/raise.go", "\tt.unreserve()\n", "",
			gatePkg, "TestTooManyKeysConcurrent"),
		one("keys-uncounted", "limits.max_keys: no limit where nobody counts",
			newKeysFile, "(g.count == nil || g.count.Keys()+all > limit)", "g.count != nil && g.count.Keys()+all > limit",
			gatePkg, "TestTooManyKeysUncounted"),
	}
}
