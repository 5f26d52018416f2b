package main

const operateFile = "proxy/gate/operate.go"

// operator are the mutants of what an operator may do at a key.
func operator() []mutant {
	return []mutant{
		one("forget-in-flight", "a key is forgotten under a write in flight or unsettled",
			stateFile, "\tcase n == 1:\n", "\tcase false:\n",
			gatePkg, "TestForgetInUse"),
		one("forget-quarantined", "a key is forgotten while it is quarantined",
			operateFile, "\tcase g.quarantine.Load() && !s.vouched[key] && (", "\tcase false && (",
			gatePkg, "TestForgetQuarantined"),
		one("forget-reloaded", "a key is forgotten that only a reload has quarantined",
			"proxy/gate/operate.go", "(g.unordered.Load() || !e.durable.fresh)", "!e.durable.fresh",
			gatePkg, "TestForgetQuarantinedByReload"),
		one("forget-unheld", "writes are admitted while their key is forgotten",
			stateFile, "\tcase s.leaving:\n\t\treturn leaving", "\tcase false:\n\t\treturn leaving",
			gatePkg, "TestForgetHoldsWrites"),
		one("forget-late-read", "a record that was read before its key was forgotten is believed",
			raiseFile, "\t\tif c.entry.era == era {\n", "\t\tif era >= 0 {\n",
			gatePkg, "TestForgetWhileLoaded"),
		one("forget-late-clear", "6: a clear of before a key was forgotten counts for the same token again",
			commitFile, "\t\t\t\ts.clears.drop(r.marks[0].Key)\n", "",
			embeddedPkg, "TestForgetDropsClear"),
		one("forget-open", "a key is forgotten while an entry of it is open at another proxy",
			engineFile, "\tcase len(e.open[key]) > 0:\n", "\tcase false:\n",
			sessionPkg, "TestForget"),
		one("settle-in-flight", "an operator's word ends a write in flight",
			operateFile, "\t\t\tif c.ticket.phase == unsettled {\n", "\t\t\tif c.ticket.phase == unsettled || c.ticket.lost == nil {\n",
			gatePkg, "TestSettleUnsettled"),
	}
}
