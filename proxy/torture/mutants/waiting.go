package main

const (
	gateFile  = "proxy/gate/gate.go"
	enterFile = "proxy/gate/enter.go"
	queueFile = "proxy/gate/queue.go"
	raiseFile = "proxy/gate/raise.go"
	tableFile = "proxy/gate/table.go"
)

// waiting are the mutants of how a write gets through the gate.
func waiting() []mutant {
	return []mutant{
		one("E", "3: no quarantine",
			gateFile, "\tif store.Recovered() {\n", "\tif false && store.Recovered() {\n",
			gatePkg, "TestStoryE"),
		one("A", "6: nobody waits for the disk",
			enterFile, "\treturn g.raise(ctx, t, marks, v == raise)\n",
			"\t\t\tt.lock()\n\t\t\tfor i := range t.claims {\n\t\t\t\tt.claims[i].entry.record(t.claims[i].Token, false, \"\")\n\t\t\t}\n\t\t\tt.unlock()\n\t\t\tgo g.raise(ctx, t, marks, v == raise)\n\t\t\treturn nil\n",
			gatePkg, "TestStoryA"),
		one("B2", "7: only raises drain",
			enterFile, "\tif v, _ := t.decide(); v == admit &&", "\tif v, _ := t.decide(); (v == admit || v == drain) &&",
			gatePkg, "TestStoryB2"),
		one("C", "8: after its raise a write registers without looking",
			enterFile, "\t\terr := t.refusal(v, c)\n\t\tif err == nil && v != load {\n",
			"\t\terr := t.refusal(v, c)\n\t\tif t.queue != nil && t.queue.waited.Raised {\n\t\t\tv, err = admit, nil\n\t\t}\n\t\tif err == nil && v != load {\n",
			gatePkg, "TestStoryC"),
		one("C2", "8: the lock is let go between the decision and the registration",
			enterFile, "\t\t\tif err = t.mayRegister(ctx); err == nil {\n",
			"\t\t\tt.unlock()\n\t\t\ttime.Sleep(1)\n\t\t\tt.lock()\n\t\t\tif err = t.mayRegister(ctx); err == nil {\n",
			gatePkg, "TestStoryC2"),
		one("one-of-several", "8: only one of several keys is checked again",
			enterFile, "\t\tv := c.entry.decide(", "\t\tif i > 0 && t.queue != nil && t.queue.waited.Raised {\n\t\t\tbreak\n\t\t}\n\t\tv := c.entry.decide(",
			gatePkg, "TestSeveralKeysAllRechecked"),
		one("client-left", "7: a write whose client left during its raise is sent",
			enterFile, "\tif left(ctx) {\n\t\treturn ErrLeft\n\t}\n\tif !t.MaySend()", "\tif !t.MaySend()",
			gatePkg, "TestClientLeavesWhileItWaits"),
		one("no-grant", "R5: a write whose grant is over is sent",
			enterFile, "\tif !t.MaySend() {\n", "\tif false && !t.MaySend() {\n",
			gatePkg, "TestSharedSessionOver"),
		one("clear-before-drain", "6: the record says clear while an older write runs",
			raiseFile, "clear := e.drained() && !c.Suspect", "clear := !c.Suspect",
			gatePkg, "TestStoryQ"),
		one("clear-in-quarantine", "6: the record says clear during the quarantine",
			raiseFile, " && g.heldBy(c) == quarantineNone &&", " &&",
			gatePkg, "TestStoryE"),
		one("failed-is-stale", "4: a token is called stale by a raise that failed",
			raiseFile, "\t\t// Nobody knows what is on the disk: nobody is told \"stale\" (rule 4).\n", "\t\te.recorded(m.Token, false, \"\")\n",
			gatePkg, "TestFailedRaise"),
		one("cut-too-early", "7: a raise cuts older uploads before it is on the disk",
			raiseFile, "\t\te.state.lift(c.Token)\n", "\t\te.state.lift(c.Token)\n\t\tfor o := e.registered; o != nil; o = o.next {\n\t\t\tif o.Token.Less(c.Token) {\n\t\t\t\to.ticket.pass()\n\t\t\t}\n\t\t}\n",
			gatePkg, "TestStoryL"),
		one("L-gate", "7: an older write in flight is not told of a raise",
			raiseFile, "\t\t\tc.ticket.pass()\n", "",
			gatePkg, "TestSharedRaiseCutsAtOnce"),
		one("evicted", "10: the table evicts entries that are in use",
			tableFile, "\t\ts.active[key] = e\n",
			"\t\ts.active[key] = e\n\t\tout := s.resting[s.turn]\n\t\ts.resting[s.turn], e.rests = e, true\n\t\ts.turn = (s.turn + 1) % restingKeys\n\t\tif out != nil {\n\t\t\ts.retire(out)\n\t\t}\n",
			gatePkg, "TestEviction"),
		one("evicted-resting", "10: the table evicts a resting entry that is in use again",
			tableFile, "out.rests = false; out.retires()", "out.rests = false; true",
			gatePkg, "TestEviction"),
		one("drain-before-raise", "several keys: one is drained before all are raised",
			"proxy/gate/state.go", "\tdrain                    // wait: an older write is not over, or a quarantine runs (rule 7)\n\traise                    // its token, or its holder, is not on the disk yet (rules 5 and 6)\n",
			"\traise\n\tdrain\n",
			gatePkg, "TestSeveralKeysRaisedBeforeDrain"),
		one("read-holds", "a fenced read does not raise",
			enterFile, "\tt.prepare(g, &r)\n", "\tt.prepare(g, &r)\n\tif r.Read {\n\t\treturn nil\n\t}\n",
			gatePkg, "TestRead"),
		one("late-clear", "6: a key whose raise may still land is forgotten",
			tableFile, "func (e *entry) retires() bool { return e.refs == 0 && !e.doubt }", "func (e *entry) retires() bool { return e.refs == 0 }",
			gatePkg, "TestLateClear"),
		one("raise-kept-out", "5: the waiting writes of an old holder keep a raise out",
			queueFile, "len(c.entry.waiters)-c.entry.lookers >= limit && !(c.entry.hasHigh && c.entry.high.Less(c.Token))", "len(c.entry.waiters) >= limit",
			gatePkg, "TestOverloadLetsRaisesIn"),
	}
}
