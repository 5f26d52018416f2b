package main

const (
	sessionPkg  = "./tokenstore/session"
	lifeFile    = "tokenstore/session/life.go"
	holdFile    = "tokenstore/session/hold.go"
	grantFile   = "tokenstore/session/grant.go"
	acquireFile = "tokenstore/session/acquire.go"
	waitFile    = "tokenstore/session/wait.go"
	removeFile  = "tokenstore/session/remove.go"
	sweepFile   = "tokenstore/session/sweep.go"
	rulesFile   = "tokenstore/session/rules.go"
	engineFile  = "tokenstore/session/sessiontest/engine.go"

	retires = "func (s *Store) retire(l *life) { s.retireAll(l.id) }"
)

// sharedStore are the mutants of the protocol of several proxies.
func sharedStore() []mutant {
	return []mutant{
		one("X1", "R5: nothing is cut at the deadline",
			lifeFile, "\t\t\tl.end(errDeadline)\n", "",
			sessionPkg, "TestStoryX1"),
		one("X2", "R9: no linger",
			sweepFile, "\t\tif now-at >= s.opts.Linger {\n", "\t\tif now >= at {\n",
			sessionPkg, "TestStoryX2"),
		one("X3", "R5: no session check before the send",
			grantFile, "return !g.released.Load() && g.life.maySend(g.store.opts.Clock())", "return !g.released.Load()",
			sessionPkg, "TestStoryX3"),
		one("X4", "R5: the session check trusts the timers alone",
			lifeFile, "\treturn now < time.Duration(l.deadline.Load()) && !l.over()\n", "\treturn !l.over()\n",
			sessionPkg, "TestStoryX4"),
		one("X4-cut", "R5: the cut trusts a timer that stands still in suspend",
			lifeFile, "min(left, s.opts.Margin/8)", "left",
			sessionPkg, "TestStoryX4"),
		one("X5", "R1: entries vanish with their session",
			engineFile, "\t\tr.gone = true\n", "\t\tr.gone = true\n\t\tfor _, open := range e.open {\n\t\t\tfor entry := range open {\n\t\t\t\tif entry.Session == s {\n\t\t\t\t\tdelete(open, entry)\n\t\t\t\t}\n\t\t\t}\n\t\t}\n",
			sessionPkg, "TestStoryX5"),
		one("X5-suite", "R1: entries vanish with their session, as an adapter's suite sees it",
			engineFile, "\t\tr.gone = true\n", "\t\tr.gone = true\n\t\tclear(e.open)\n",
			sessionPkg, "TestEngine/entries outlive their session (X5)"),
		{name: "X6", rule: "R10: a new session keeps the grants of the old one", edits: []edit{
			{holdFile, "return h.life == l && h.phase <= live", "return h.phase <= live"},
			{removeFile, retires, "func (s *Store) retire(*life) {}"},
		}, pkg: sessionPkg, test: "TestStoryX6"},
		one("X7", "R7: a keepalive counts without its raises",
			lifeFile, "range overtaken {", "range overtaken[:0] {",
			sessionPkg, "TestStoryX7"),
		one("X8", "R2: raise and entry are two steps",
			engineFile, "\t\te.records[w.Key] = next[i]\n", "\t\te.records[w.Key] = next[i]\n\t\te.mu.Unlock()\n\t\ttime.Sleep(10 * time.Millisecond / time.Duration(w.Token.Major+1))\n\t\te.mu.Lock()\n",
			sessionPkg, "TestStoryX8"),
		{name: "X9", rule: "R4: a grant is used while its entry is being deleted", edits: []edit{
			{holdFile, "h.phase <= live", "h.phase <= over"},
			{grantFile, "case p == live:", "case p >= live:"},
		}, pkg: sessionPkg, test: "TestStoryX9"},
		one("held-early", "R3: what is held is given while older writes are open",
			acquireFile, "h == nil || h.phase != live {", "h == nil {",
			sessionPkg, "TestHeld"),
		one("held-uncounted", "R6: what is held is given without being counted",
			acquireFile, "\th.use()\n\treturn &grant{", "\treturn &grant{",
			sessionPkg, "TestHeld"),
		one("X10", "R6: an entry is acquired again with the nonce of before",
			acquireFile, "Nonce: s.nonce.Add(1) | ", "Nonce: 1 | ",
			sessionPkg, "TestStoryX10"),
		{name: "X12", rule: "R8: nobody looks for entries without an owner", edits: []edit{
			{waitFile, "\t\tif s.own.has(e.Session) && (", "\t\tif false && s.own.has(e.Session) && ("},
			{sweepFile, "\t\tif !s.table.has(&entries[i]) {\n", "\t\tif false {\n"},
		}, pkg: sessionPkg, test: "TestStoryX12/found by the keepalive"},
		one("X12-period", "R8: what nobody asks for is not looked for",
			sweepFile, "\t\t\tcase due && l.doubtful():\n", "\t\t\tcase false && due && l.doubtful():\n",
			sessionPkg, "TestStoryX12/nobody asks for it"),
		one("R2-own", "R2: older writes of the same proxy are not waited for",
			acquireFile, "\treturn h == nil || h.phase == over\n", "\treturn true\n",
			sessionPkg, "TestWaitsForOlder"),
		one("R3", "R3: nobody waits for older entries",
			holdFile, "\tif len(older) > 0 {\n", "\tif len(older) > 1000 {\n",
			sessionPkg, "TestWaitsForOlder"),
		one("R3-look", "R3: a look of before the wait counts",
			waitFile, "\t\tif _, ok := before[h]; !ok {\n", "\t\tif h.phase != waiting {\n",
			sessionPkg, "TestLookBeforeTheWait"),
		one("R3-overtaken", "R3: an overtaken write keeps waiting",
			grantFile, "\t\tcase passed:\n", "\t\tcase passed && p == live:\n",
			sessionPkg, "TestOvertakenWhileItWaits"),
		one("R4", "R4: a grant goes on after a higher token was seen",
			holdFile, "\t\ts.shut(h)\n\t}\n\treturn news\n", "\t}\n\treturn news\n",
			sessionPkg, "TestOvertakenGrant"),
		one("R5-send", "R5: the deadline counts from the answer of a keepalive",
			lifeFile, "\t\tl.confirm(sent + ", "\t\t_ = sent\n\t\tl.confirm(s.opts.Clock() + ",
			sessionPkg, "TestDeadlineCountsFromTheSend"),
		one("R5-margin", "R5: the deadline is where the store's own time ends",
			lifeFile, "\t\tl.confirm(sent + s.opts.TTL - s.opts.Margin)\n", "\t\tl.confirm(sent + s.opts.TTL)\n",
			sessionPkg, "TestDeadlineCountsFromTheSend"),
		one("R8-unknown", "R8: an acquire with an unknown result is taken for none",
			acquireFile, "\t\t\tacq.life.doubt(h.entry.Key)\n", "",
			sessionPkg, "TestStoryX12/nobody asks for it"),
		one("R9-known", "R9: linger begins anew with each look",
			sweepFile, "_, known := s.seen.at[session]; !known && ", "",
			sessionPkg, "TestLinger"),
		one("R10-in-flight", "R10: what is in flight when the session ends loses its entry",
			removeFile, "\t\t\t\t\tif h.uses > 0 {\n", "\t\t\t\t\tif h.uses > 0 {\n\t\t\t\t\t\ts.finish(h)\n",
			sessionPkg, "TestNextSessionKeepsEntries"),
		one("R6", "R6: an entry goes while writes of it are in flight",
			holdFile, "\th.shard.wakeUp(h)\n\tif h.uses == 0 {\n", "\th.shard.wakeUp(h)\n\tif true {\n",
			sessionPkg, "TestReleaseWaitsForWrites"),
		one("R6-random", "R6: the same, in the random runs",
			holdFile, "\th.shard.wakeUp(h)\n\tif h.uses == 0 {\n", "\th.shard.wakeUp(h)\n\tif true {\n",
			sessionPkg, "TestRandom"),
		one("R9-random", "R9: no linger, in the random runs",
			sweepFile, "\t\tif now-at >= s.opts.Linger {\n", "\t\tif now >= at {\n",
			sessionPkg, "TestRandom"),
		one("urgent", "what nobody waits for is removed first",
			removeFile, "\tfrom := &r.urgent\n\tif len(*from) == 0 {\n\t\tfrom = &r.others\n", "\tfrom := &r.others\n\tif len(*from) == 0 {\n\t\tfrom = &r.urgent\n",
			sessionPkg, "TestUrgentRemovalsComeFirst"),
		one("R9-forget", "R9: only the entries that somebody waits for are removed",
			sweepFile, "\t\tif !ok {\n\t\t\tnote(session)\n", "\t\tif !ok && waited[session] {\n\t\t\tnote(session)\n",
			sessionPkg, "TestLinger"),
		{name: "R10", rule: "R10: who waits when the session ends waits on", edits: []edit{
			{grantFile, "\t\tcase <-g.life.ctx.Done():\n", ""},
			{removeFile, retires, "func (s *Store) retire(*life) {}"},
		}, pkg: sessionPkg, test: "TestSessionEndsWhileWaiting"},
		one("left", "7: the gate is not told of a raise whose caller had left before it was recorded",
			acquireFile, "\tclose(acq.done)\n\ts.tellOwn(acq)\n", "\tclose(acq.done)\n",
			sessionPkg, "TestRaiseOfWhoHasLeft"),
		one("left-late", "7: the gate is not told of a raise whose caller leaves just behind it",
			acquireFile, "\t\t\t\tacq.left.Store(true)\n\t\t\t\ts.tellOwn(acq)\n", "\t\t\t\tacq.left.Store(true)\n",
			sessionPkg, "TestRaiseOfWhoLeavesLate"),
		one("clear-shared", "6: a record says clear, which one of several proxies cannot know",
			acquireFile, "\t\tm.Clear = false //", "\t\t//",
			sessionPkg, "TestStore/it never says clear"),
		one("rules-shared", "rules are changed while another proxy makes the old keys",
			rulesFile, "\t\t\treturn &OthersError{Rules: changed, Others: others}\n", "\t\t\treturn nil\n",
			sessionPkg, "TestRules"),
	}
}
