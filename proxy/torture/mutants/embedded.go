package main

const (
	embeddedPkg = "./tokenstore/embedded"
	rotateFile  = "tokenstore/embedded/rotate.go"
	commitFile  = "tokenstore/embedded/commit.go"
	batchFile   = "tokenstore/embedded/batch.go"
)

// recordsFall makes the one decision that all stores share forget that records
// only grow.
var recordsFall = []edit{{
	"tokenstore/raise.go",
	"\tcase c < 0:\n\t\treturn r, false, &StaleError{Key: m.Key, Token: m.Token, Highest: r.Highest}\n\tcase c > 0:\n",
	"\tcase c != 0:\n",
}}

// embeddedStore are the mutants of the store on disk.
func embeddedStore() []mutant {
	return []mutant{
		one("lock", "1: the store's lock is not exclusive",
			"tokenstore/embedded/lock.go", "unix.LOCK_EX|unix.LOCK_NB", "unix.LOCK_SH|unix.LOCK_NB",
			embeddedPkg, "TestLockAlone"),
		one("F", "2: the marker of a clean stop stays",
			"tokenstore/embedded/about.go", "\tif clean != nil {\n\t\tif err := about.Delete(cleanKey)", "\tif false {\n\t\tif err := about.Delete(cleanKey)",
			embeddedPkg, "TestStore/a marker of a clean stop counts once"),
		one("marker-always", "12: every stop writes the marker",
			"tokenstore/embedded/store.go", "\tif err == nil && clean {\n", "\tif err == nil {\n",
			embeddedPkg, "TestStore/a marker of a clean stop counts once"),
		{name: "H-embedded", rule: "6: a record on disk may go down", edits: recordsFall,
			pkg: embeddedPkg, test: "TestStore/a lower token is stale and changes nothing"},
		one("clear-late", "6: a late clear is taken for that of a higher token",
			batchFile, " || s.rec.Highest != token || s.rec.Clear {", " || s.rec.Clear {",
			embeddedPkg, "TestStore/a late clear is dropped once overtaken"),
		one("all-or-none", "6: of several marks, those before the stale one are recorded",
			batchFile, "m, b.now); err != nil {\n\t\t\treturn err\n\t\t}\n\t}\n\tfor i, m := range marks {\n\t\tif changed[i] {\n\t\t\tb.set(b.slots[m.Key], next[i])\n\t\t}\n\t}\n",
			"m, b.now); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif changed[i] {\n\t\t\tb.set(s, next[i])\n\t\t}\n\t}\n",
			embeddedPkg, "TestStore/one stale mark of several refuses all"),
		one("A2-load", "6: a record is told before it is synced",
			rotateFile, "\ts.log.buf = b\n", "\ts.log.buf = b\n\ts.recent.put(next.changed)\n",
			embeddedPkg, "TestNothingToldBeforeSync"),
		one("A-commit", "6: a raise is told before it is synced",
			commitFile, "\tanswer(requests, s.apply(requests, cleared))\n", "\tanswer(requests, nil)\n\t_ = s.apply(requests, cleared)\n",
			embeddedPkg, "TestGiveUpWhileSyncHangs"),
		one("A-failed", "6: a raise whose sync failed is told as durable",
			commitFile, "\tanswer(requests, s.apply(requests, cleared))\n", "\t_ = s.apply(requests, cleared)\n\tanswer(requests, nil)\n",
			embeddedPkg, "TestFailedSync"),
		one("failed-sync", "6: the store goes on after a failed sync",
			rotateFile, "\t\tif !passing(err) {\n\t\t\ts.poison(err)\n", "\t\tif false {\n\t\t\ts.poison(err)\n",
			embeddedPkg, "TestFailedSync"),
		one("damaged", "6: a record with a wrong checksum counts",
			"tokenstore/embedded/record.go", "\tif n < 0 || binary.BigEndian.Uint32(sealed[n:]) != checksum(key, sealed[:n]) {\n", "\tif n < 0 {\n",
			embeddedPkg, "TestDamagedRecord"),
		one("failed-fold", "6: the store goes on after a fold whose sync failed",
			"tokenstore/embedded/fold.go", "\tif !passing(err) || !s.untouched() {\n", "\tif false {\n",
			embeddedPkg, "TestFailedFold"),
		one("view-batch", "6: a fold that ends meanwhile hides records from a batch",
			commitFile, "lookup(v.current, v.frozen, key)", "v.s.recent.load(key)",
			embeddedPkg, "TestFoldEndsInBatch"),
		one("replay-sync", "6: what a kill left in the page cache is told before it is synced",
			"tokenstore/embedded/replay.go", "\terr = f.Sync()\n\tif sync != nil {\n\t\terr = sync(err)\n\t}\n", "",
			embeddedPkg, "TestReplaySynced"),
		one("behind", "6: a damaged frame hides the whole ones behind it",
			"tokenstore/embedded/scan.go", "return end, f.nothingBehind(r, end, size)", "return end, nil",
			embeddedPkg, "TestFlippedByte"),
		one("remove-early", "6: a log is removed before it is folded",
			"tokenstore/embedded/fold.go", "\ts.reached(\"fold due\")\n", "\ts.removeFolded(f.last)\n\ts.reached(\"fold due\")\n",
			embeddedPkg, "TestCrashAtEachStep"),
		one("missing-log", "6: a log that is missing is not missed",
			"tokenstore/embedded/replay.go", "r.last < state.begun || ", "",
			embeddedPkg, "TestDamagedLogs"),
	}
}
