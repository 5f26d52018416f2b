package main

import "time"

const upstreamPkg = "./proxy/upstream"

// hop are the mutants of the hop to the upstream.
func hop() []mutant {
	return []mutant{
		one("J", "9: a write that broke on a kept connection is sent again",
			"proxy/upstream/send.go", "\t\tif !errors.Is(err, errUnused) {\n", "\t\tif err == nil || errors.Is(err, ErrCut) {\n",
			upstreamPkg, "TestStaleConnection"),
		one("J-fresh", "9: a write that broke on a fresh connection is sent again",
			"proxy/upstream/send.go", "\treturn u.attempt(ctx, r, nc, first, whole)\n}",
			"\tif a, err := u.attempt(ctx, r, nc, first, whole); err == nil || errors.Is(err, errUnused) {\n\t\treturn a, err\n\t}\n\tif nc, err = u.dial(ctx); err != nil {\n\t\treturn nil, u.notSent(r, dialReason(ctx, err), err)\n\t}\n\treturn u.attempt(ctx, r, nc, first, whole)\n}",
			upstreamPkg, "TestFirstWriteFails"),
		one("truncated", "10: an answer that ended short settles",
			"proxy/upstream/answer.go", "\tif err == io.EOF {\n\t\terr = io.ErrUnexpectedEOF\n\t}\n\treturn n, err\n", "\treturn n, err\n",
			upstreamPkg, "TestOutcome/half a body"),
		one("reset-is-end", "10: a reset after the answer's beginning settles",
			"proxy/upstream/answer.go", "\t\t\tif !a.x.c.writeFailed.Load() {\n", "\t\t\tif true {\n",
			upstreamPkg, "TestResetToldToWriter"),
		one("202", "10: a 202 settles",
			"proxy/upstream/outcome.go", "\tcase f.whole && slices.Contains(", "\tcase false && slices.Contains(",
			upstreamPkg, "TestOutcome/202"),
		one("early-2xx", "10: an early 2xx settles",
			"proxy/upstream/outcome.go", "\tcase f.whole && f.status >= http.StatusBadRequest:\n", "\tcase f.whole && f.status >= http.StatusOK:\n",
			upstreamPkg, "TestOutcome/early 200, then reset"),
		one("lost-is-settled", "10: what nobody knows counts as settled",
			"proxy/upstream/outcome.go", "\treturn Outcome{Unsettled, f.why()}\n}\n\n// why", "\treturn Outcome{Settled, f.why()}\n}\n\n// why",
			upstreamPkg, "TestOutcome/reset before the first byte"),
		one("half-sent", "10: a write of which a byte left counts as not sent",
			"proxy/upstream/exchange.go", "x.c.written.Load() > 0 || !x.over,", "x.c.written.Load() > 1,",
			upstreamPkg, "TestFirstWriteFails"),
		one("J-h2", "9: a write that broke on a shared connection is sent again",
			"proxy/upstream/h2.go", "\t\tif !unused {\n", "\t\tif unused = err != nil; !unused {\n",
			upstreamPkg, "TestH2NoSecondSend"),
		one("h2-any-reset", "10: every reset stream counts as not sent",
			"proxy/upstream/h2stream.go", "\tcase code == http2.ErrCodeRefusedStream:\n", "\tcase code != http2.ErrCodeNo:\n",
			upstreamPkg, "TestH2Outcome/CANCEL before the head"),
		one("h2-late-promise", "10: a promise that comes after a part of the answer counts",
			"proxy/upstream/h2stream.go", "\tif s.heard {\n", "\tif false {\n",
			upstreamPkg, "TestH2Outcome/REFUSED_STREAM after a head"),
		one("h2-goaway", "10: GOAWAY promises something about the streams below it",
			"proxy/upstream/h2read.go", "\t\tif id > f.LastStreamID {\n", "\t\tif id >= f.LastStreamID {\n",
			upstreamPkg, "TestH2Outcome/GOAWAY above the stream, then closed"),
		one("h2-truncated", "10: END_STREAM before the answer's length settles",
			"proxy/upstream/h2stream.go", "\tif s.missing > 0 {\n", "\tif false {\n",
			upstreamPkg, "TestH2Outcome/too few bytes"),
		one("h2-early-2xx", "10: a whole 2xx after which the upstream wants no more settles",
			"proxy/upstream/h2stream.go", "\tcase s.ended && code == http2.ErrCodeNo:\n", "\tcase s.ended && code == http2.ErrCodeNo:\n\t\ts.sent = true\n",
			upstreamPkg, "TestH2Outcome/early 200, then NO_ERROR"),
		{name: "L1-h2", rule: "7: a cut does not end the upload", pkg: upstreamPkg, test: "TestH2Cut", hangs: 10 * time.Second, edits: []edit{
			{"proxy/upstream/h2answer.go", "\t\t\tcase <-r.Cut:\n\t\t\t\ts.cut()\n", "\t\t\tcase <-r.Cut:\n"},
		}},
		{name: "L1-hop", rule: "7: a cut does not end the upload", pkg: upstreamPkg, test: "TestCut", hangs: 10 * time.Second, edits: []edit{
			{"proxy/upstream/upload.go", "\t\t\tcase <-x.r.Cut:\n\t\t\t\tx.cut()\n", "\t\t\tcase <-x.r.Cut:\n"},
		}},
	}
}
