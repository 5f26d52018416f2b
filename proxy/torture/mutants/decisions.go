package main

const (
	gatePkg   = "./proxy/gate"
	stateFile = "proxy/gate/state.go"
)

// decisions are the mutants of what the gate decides.
func decisions() []mutant {
	return []mutant{
		one("A2", "6: an equal token does not wait for the first one's raise",
			stateFile, "\tcase !s.durable.is(t):\n", "\tcase !s.durable.is(t) && !s.underway(t):\n",
			gatePkg, "TestStoryA2"),
		one("B", "7: no drain",
			stateFile, "\tcase s.older > 0 || before > 0:\n", "\tcase false:\n",
			gatePkg, "TestStoryB"),
		one("Q", "3: after a crash, equal tokens do not wait",
			stateFile, "\t\ts.record(rec.Highest, rec.Clear, rec.Holder)\n", "\t\ts.record(rec.Highest, true, rec.Holder)\n",
			gatePkg, "TestStoryQ"),
		one("E-waits", "3: no write waits for the quarantine",
			stateFile, "\tcase q == quarantineAll || q == quarantineUnclear && !s.durable.clear:\n", "\tcase q == quarantineAll:\n",
			gatePkg, "TestStoryE"),
		one("H", "5: the copy in memory is filled by a blind write",
			stateFile, "\t\ts.record(rec.Highest, rec.Clear, rec.Holder)\n",
			"\t\ts.durable.token, s.durable.exists, s.durable.clear = rec.Highest, true, rec.Clear\n\t\ts.high, s.hasHigh = rec.Highest, true\n",
			gatePkg, "TestStoryH"),
		one("H-record", "6: what memory knows of the record may go down",
			stateFile, "\tcase s.durable.above(token):\n", "\tcase false && s.durable.above(token):\n",
			gatePkg, "TestStoryH"),
		one("5", "5: while a raise is on its way lower writes register",
			stateFile, "\tcase s.overtaken(t):\n", "\tcase false && s.overtaken(t):\n",
			gatePkg, "TestFailedRaise"),
		one("5-older", "5: what is in flight does not become older by a raise",
			stateFile, "\ts.older += s.current\n", "",
			gatePkg, "TestStoryB"),
		one("raised-before-checked", "all keys: one is raised before the other is checked",
			stateFile,
			"\traise                    // its token, or its holder, is not on the disk yet (rules 5 and 6)\n\tpending                  // a higher token is not on the disk yet (rule 4)\n\tcollision                // its token is another holder's, on the disk (rules 6 and 8)\n\tstale                    // a higher token is on the disk (rules 4 and 8)\n",
			"\tpending\n\tcollision\n\tstale\n\traise\n",
			gatePkg, "TestSeveralKeysOneStale"),
		one("suspect-crash", "3: a clear record ends the quarantine of a changed rule",
			stateFile, "\tcase q == quarantineAll || q == quarantineUnclear && !s.durable.clear:\n", "\tcase q != quarantineNone && !s.durable.clear:\n",
			gatePkg, "TestSuspectCrash"),
		one("holder", "8: an equal token of another holder passes",
			stateFile, "\tcase holder != \"\" && s.durable.holder != holder:\n", "\tcase false && holder != \"\" && s.durable.holder != holder:\n",
			gatePkg, "TestHolder"),
		one("holder-adopted", "6: a record without a holder takes none",
			stateFile, "\tcase holder != \"\" && s.durable.holder == \"\":\n\t\treturn raise // or a second holder could share the token\n", "",
			gatePkg, "TestHolderAdopted"),
	}
}
