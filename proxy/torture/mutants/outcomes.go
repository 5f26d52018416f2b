package main

// outcomes are the mutants of the outcome table: of what is made of the facts of
// one request, and of where its answer ends.
func outcomes() []mutant {
	const (
		judgeFile = "proxy/upstream/outcome.go"
		headFile  = "proxy/upstream/answerhead.go"
		bodyFile  = "proxy/upstream/answer.go"
	)
	row := func(name, rule, file, old, new, test string) mutant {
		return one("outcome-"+name, "10: "+rule, file, old, new, upstreamPkg, "TestOutcome/"+test)
	}
	return []mutant{
		one("outcome-not-sent", "10: what was never sent counts as lost",
			judgeFile, "\tcase !f.left:\n", "\tcase false:\n", upstreamPkg, "TestH2Outcome/REFUSED_STREAM"),
		row("sent-is-settled", "a write that was wholly sent is settled without its answer",
			judgeFile, "\tcase f.whole && f.sent:\n", "\tcase f.sent:\n", "reset before the first byte"),
		row("whole-is-settled", "a whole answer settles what was not wholly sent",
			judgeFile, "\tcase f.whole && f.sent:\n", "\tcase f.whole:\n", "early 200, then reset"),
		row("half-refusal", "half a refusal settles",
			judgeFile, "\tcase f.whole && f.status >= http.StatusBadRequest:\n", "\tcase f.status >= http.StatusBadRequest:\n", "half an early refusal, then reset"),
		row("no-refusal", "a refusal of what was not wholly sent does not settle",
			judgeFile, "\tcase f.whole && f.status >= http.StatusBadRequest:\n", "\tcase f.whole && f.status == http.StatusContinue:\n", "early refusal, then reset"),
		row("early-status", "an unsettled status settles where it comes early",
			judgeFile, "\tcase f.whole && u.unproven(f.status):\n", "\tcase f.whole && f.sent && u.unproven(f.status):\n", "early 502"),
		row("two-lengths", "the first of two lengths counts",
			headFile, "\t\tif i > 0 && int64(n) != length {\n", "\t\tif i > 0 {\n\t\t\tbreak\n\t\t}\n\t\tif false {\n", "two lengths"),
		row("chunked-and-length", "chunks go before a length",
			headFile, "\t\tcase length >= 0:\n", "\t\tcase false && length >= 0:\n", "chunked and a length"),
		row("header-name", "a space before a header's colon is taken off",
			headFile, "\t\tif !httpguts.ValidHeaderFieldName(name) {\n", "\t\tif false && !httpguts.ValidHeaderFieldName(name) {\n", "a space before the colon"),
		row("head-limit", "a head may be of any size",
			headFile, "\tc.limit(limit)\n", "", "too large a head"),
		row("trailer-limit", "trailers may be of any size",
			bodyFile, "\ta.x.c.limit(a.x.u.maxHeader)\n", "", "too large trailers"),
		row("coding", "a coding that is not known counts as chunked",
			headFile, "\t\tcase len(te) > 1 || !strings.EqualFold(te[0], \"chunked\") || len(te[0]) != len(\"chunked\"): // U+212A folds to k\n", "\t\tcase false:\n", "another coding than chunked"),
		row("coding-twice", "chunked twice counts as once",
			headFile, "len(te) > 1 || !strings.EqualFold", "!strings.EqualFold", "chunked twice"),
		row("http10", "HTTP/1.0 knows chunks",
			headFile, "\t\tcase h.minor == 0:\n\t\t\treturn 0, 0, badAnswer(", "\t\tcase false:\n\t\t\treturn 0, 0, badAnswer(", "chunked in HTTP/1.0"),
		row("length", "a length may have a sign",
			headFile, "strconv.ParseUint(textproto.TrimString(line), 10, 63)", "strconv.ParseInt(textproto.TrimString(line), 10, 64)", "a length that is no number"),
		row("status", "a status below 100 counts",
			headFile, "\tif status < 100 {\n", "\tif false {\n", "a status below 100"),
		row("status-digits", "a status of four digits counts by its first three",
			headFile, " || len(rest) > 5 && rest[5] != ' '", "", "a status of four digits"),
		row("leave", "nobody asks, before the first byte, whether it may still be sent (R5)",
			"proxy/upstream/send.go", "\tif r.MaySend != nil && !r.MaySend() {\n", "\tif false {\n", "no leave"),
		row("cut-first", "a write is sent that was cut before its first byte",
			"proxy/upstream/send.go", "\tcase <-r.Cut:\n\t\treturn ReasonCut, ErrCut\n", "\tcase <-r.Cut:\n", "cut before the first byte"),
		row("trailers", "an answer is whole with its last chunk",
			bodyFile, "\t\tif err = a.readTrailer(br); err == nil {\n", "\t\tif err = a.readTrailer(br); true {\n", "no end of trailers"),
		row("no-last-chunk", "an answer is whole with the connection's end",
			bodyFile, "\t\tif err != io.EOF {\n\t\t\treturn n, err\n\t\t}\n", "\t\tif err == io.ErrUnexpectedEOF {\n\t\t\treturn n, io.EOF\n\t\t}\n\t\tif err != io.EOF {\n\t\t\treturn n, err\n\t\t}\n", "no last chunk"),
	}
}
