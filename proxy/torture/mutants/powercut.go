package main

const (
	logFile      = "tokenstore/embedded/log.go"
	replayFile   = "tokenstore/embedded/replay.go"
	powerCutTest = "TestPowerCut"
)

// powerCuts are the mutants of the store on disk that only a power cut shows:
// what is written is not brought to the disk.
func powerCuts() []mutant {
	return []mutant{
		one("cut-raise", "6: a raise is told that is not synced",
			logFile, "\terr := fdatasync(l.file)\n", "\tvar err error\n",
			embeddedPkg, powerCutTest),
		one("cut-log-entry", "6: a log is begun whose name is not synced",
			logFile, "\tif err := syncPath(dir); err != nil {\n", "\tif err := error(nil); err != nil {\n",
			embeddedPkg, powerCutTest),
		one("cut-log-header", "6: a log is begun whose header is not synced",
			logFile, "\tif err := file.Sync(); err != nil {\n", "\tif err := error(nil); err != nil {\n",
			embeddedPkg, powerCutTest),
		one("cut-file", "2, 6: the file is never synced",
			"tokenstore/embedded/open.go", "\to.NoStatistics = true\n", "\to.NoStatistics = true\n\to.NoSync = true\n",
			embeddedPkg, powerCutTest),
		one("cut-replayed", "6: what a kill left in the page cache is not synced",
			replayFile, "\terr = f.Sync()\n", "\terr = nil\n",
			embeddedPkg, powerCutTest),
		one("cut-replayed-entry", "6: a log that a kill left without its name synced is followed by the next one",
			replayFile, "\treturn syncPath(dir)\n", "\treturn nil\n",
			embeddedPkg, powerCutTest),
		one("cut-torn", "6: a torn frame stays where the next log is begun",
			replayFile, "\t\tif err := f.Truncate(r.torn); err != nil {\n", "\t\tif err := error(nil); err != nil {\n",
			embeddedPkg, powerCutTest),
	}
}
