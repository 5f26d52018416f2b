package main

// tokenOrder are the mutants of how tokens are compared, and of how they and
// their holders are read from headers.
func tokenOrder() []mutant {
	const (
		orderFile  = "tokenstore/token.go"
		headerFile = "proxy/token.go"
		claimsFile = "proxy/claims.go"
	)
	order := func(name, rule, old, new string) mutant {
		return one("token-"+name, rule, orderFile, old, new, tokenPkg, "TestTokenOrder")
	}
	header := func(name, rule, file, old, new, row string) mutant {
		return one("header-"+name, rule, file, old, new, proxyPkg, "TestAnswers/"+row)
	}
	return []mutant{
		order("order-epoch", "an epoch goes in front of no token",
			"\tif c := cmp.Compare(t.Epoch, u.Epoch); c != 0 {\n", "\tif c := cmp.Compare(t.Epoch, u.Epoch); false {\n"),
		order("order-minor", "the second number of a composite token orders nothing",
			"\treturn cmp.Compare(t.Minor, u.Minor)\n", "\treturn 0\n"),
		order("order-text", "tokens are compared as texts",
			"\tif c := cmp.Compare(t.Major, u.Major); c != 0 {\n", "\tif c := cmp.Compare(strconv.FormatUint(t.Major, 10), strconv.FormatUint(u.Major, 10)); c != 0 {\n"),
		order("order-bytes", "tokens in a store are in another order",
			"\tb = binary.BigEndian.AppendUint64(b, t.Major)\n", "\tb = binary.LittleEndian.AppendUint64(b, t.Major)\n"),

		header("lines", "the first of two token lines counts",
			headerFile, "len(x.r.Header[t.header]) > 1 || ", "", "two token lines"),
		header("list", "a list of tokens is malformed, and not ambiguous",
			headerFile, "strings.Contains(t.text, \",\")", "strings.Contains(t.text, \"\\n\")", "a list of tokens"),
		header("missing", "a write without its token passes, where one is required",
			headerFile, "\tcase absent != \"\" && !x.rule.Optional:\n", "\tcase false:\n", "no token"),
		header("empty", "an empty header is none",
			headerFile, "\treturn lines[0], len(lines)\n", "\tif lines[0] == \"\" {\n\t\treturn \"\", 0\n\t}\n\treturn lines[0], len(lines)\n", "empty token"),
		header("no-holder", "a write without a holder passes, where one is asked for",
			headerFile, "\t\tcase n == 0 || text == \"\":\n", "\t\tcase false:\n", "no holder"),
		header("epoch", "the rule's epoch goes in front of no token",
			headerFile, "\tt.value.Epoch = x.rule.Epoch\n", "", "stale hex with epoch"),
		header("max-token", "a token above max_token passes",
			claimsFile, "\tif !x.rule.HasMaxToken {\n", "\tif true {\n", "above max_token"),
		header("one-key", "two tokens for one key pass",
			claimsFile, "\t\tcase claims[at] != c:\n", "\t\tcase false:\n", "one key, two tokens"),
	}
}
