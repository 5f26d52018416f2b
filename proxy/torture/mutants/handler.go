package main

import "time"

const proxyPkg = "./proxy"

// handler are the mutants of the life of a request.
func handler() []mutant {
	return []mutant{
		one("I", "11: the client's leaving ends an admitted write",
			"proxy/forward.go", "\t\tctx = x.h.sessions.until(x.ticket.Lost())\n", "",
			proxyPkg, "TestHTTP2StoryI"),
		one("L1", "7: an overtaken upload is not cut",
			"proxy/forward.go", "\t\t\tr.Cut = x.ticket.Overtaken()\n", "\t\t\tr.Cut = nil\n",
			proxyPkg, "TestStoryL1"),
		one("panic-settles", "10: a panic leaves the write settled",
			"proxy/handler.go", "\tdefer x.settle(\"abandoned\")\n", "\tdefer x.settle(\"\")\n",
			proxyPkg, "TestPanicLeavesUnsettled"),
		one("body-first", "4: a stale write's body is read before it is refused",
			"proxy/handler.go", "\tif err := x.h.Gate.Check(ctx, claims, x.rule.DrainTimeout, &x.ticket); err != nil {\n", "\tif err := error(nil); err != nil {\n",
			proxyPkg, "TestStaleUploadsNothing"),
		{name: "L2", rule: "7: an overtaken answer waits for its slow reader", pkg: proxyPkg, test: "TestStoryL2", hangs: 20 * time.Second, edits: []edit{
			{"proxy/client.go", "\t\t_ = c.rc.SetWriteDeadline(start.Add(c.left))\n", ""},
			{"proxy/client.go", "\t\t\t_ = c.rc.SetWriteDeadline(time.Now().Add(grace))\n", ""},
		}},
		one("smuggled", "the rest of an upload is read as the next request",
			"proxy/relay.go", "if a.Refused || x.body.streaming && !x.body.ended.Load() {", "if a.Refused {",
			proxyPkg, "TestRestOfUploadIsNoRequest"),
		one("L2-1xx", "7: an overtaken 1xx answer waits for its slow reader",
			"proxy/client.go", "\tc.watch()\n\tc.timely(func() error { c.x.w.WriteHeader(status); return nil })\n", "\tc.x.w.WriteHeader(status)\n",
			proxyPkg, "TestStoryL2Everywhere"),
		one("left-behind", "7: a client that left bytes behind its request is not seen leaving",
			"proxy/client.go", "\tcase clientGone(w.r):\n", "\tcase false:\n",
			proxyPkg, "TestClientLeavesBytesBehind"),
	}
}
