package main

// reload are the mutants of putting other rules into force.
func reload() []mutant {
	const file = "proxy/rulebook.go"
	return []mutant{
		one("reload-waits", "a write that a reload has fenced does not wait for unfenced ones",
			file, "\tif len(older) == 0 {\n", "\tif len(older) >= 0 {\n",
			proxyPkg, "TestFencedByReloadWaits"),
		one("reload-settle", "an unfenced write that was lost from sight is over at once",
			file, "\tif lost {\n", "\tif false {\n",
			proxyPkg, "TestFencedByReloadWaitsForSettle"),
		one("reload-cut", "an unfenced upload keeps fenced writes out",
			file, "\t\t\t\tb.hurry()\n", "\t\t\t\t_ = b\n",
			proxyPkg, "TestFencedByReloadCuts"),
		one("reload-keys", "a rule of another name counts as the same",
			file, "r.Name == x.rule.Name && ", "",
			proxyPkg, "TestOtherRuleWaits"),
		one("reload-unfenced", "what was not fenced before counts as known to the gate",
			file, "x.rule.Name && r.Fenced", "x.rule.Name",
			proxyPkg, "TestFencedByReloadWaits"),
		one("reload-observed", "what was only looked on counts as known to the gate",
			file, " && !r.Observe\n", "\n",
			proxyPkg, "TestEnforcedByReloadWaitsForKeyless"),
		one("reload-cut-fenced", "a fenced upload, answer or websocket keeps newly fenced writes out",
			file, "x.book.hurried, x.ticket.Hurry)", "x.book.hurried, func() {})",
			proxyPkg, "TestFencedByReloadOutlastsFenced"),
		one("reload-stop", "a stop does not wait for unfenced writes of before a reload",
			"cmd/fenceproxy/run.go", "older := s.handler.AwaitOlder(ctx) != nil", "older := false",
			"./cmd/fenceproxy", "TestScripts/reload_stop"),
		one("reload-crash", "the store does not remember the unfenced writes of before a reload",
			"cmd/fenceproxy/reload.go", "p.unordered() || fences\n", "p.unordered()\n",
			"./cmd/fenceproxy", "TestScripts/reload_fenced"),
		one("reload-rules", "the store does not remember the rules of a reload",
			"tokenstore/embedded/remember.go", "addRules(rules, c.Rules)", "addRules(rules, nil)",
			"./tokenstore/embedded", "TestRememberIsDurable"),
	}
}
