package main

const (
	ticketFile = "proxy/gate/ticket.go"
	stopFile   = "proxy/gate/stop.go"
)

// tickets are the mutants of how a write and the proxy end.
func tickets() []mutant {
	return []mutant{
		one("D", "10: a write that was lost from sight is forgotten",
			ticketFile, "\ttime.AfterFunc(t.settle, t.settled)\n", "\ttime.AfterFunc(0, t.settled)\n",
			gatePkg, "TestStoryD"),
		one("last-word", "10: a write that was lost from sight can be settled later",
			ticketFile, "func (t *Ticket) Settle() {\n\tt.lock()\n\tif t.phase != inFlight {\n", "func (t *Ticket) Settle() {\n\tt.lock()\n\tif t.phase != inFlight && t.phase != unsettled {\n",
			gatePkg, "TestTheFirstWordCounts"),
		one("F2-in-flight", "12: a clean stop with a write in flight",
			stopFile, "\tfor g.table.open() ||", "\tfor g.Counts().Unsettled > 0 ||",
			gatePkg, "TestStoryF2"),
		one("F2-unsettled", "12: a clean stop with an unsettled write",
			stopFile, "\tfor g.table.open() ||", "\tfor g.Counts().InFlight > 0 ||",
			gatePkg, "TestStoryF2Unsettled"),
		one("stop-deaf", "L1: a proxy that stops hears of no raises at others",
			stopFile, "\t\t\tg.raisedElsewhere(m)", "\t\t\t_ = m",
			gatePkg, "TestSharedRaisedElsewhereWhileItStops"),
		one("stopped-fast", "12: a write that need not wait is admitted after the stop",
			enterFile, "v == admit && !g.stopping.Load() {\n\t\tt.register()", "v == admit {\n\t\tt.register()",
			gatePkg, "TestStop"),
		one("F3", "12: a clean stop during the quarantine",
			stopFile, " || g.quarantine.Load() {", " {",
			gatePkg, "TestStoryF3"),
	}
}
