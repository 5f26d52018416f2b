// Package embedded is the store of one proxy in a local directory: a redo log
// of raises, in front of a bbolt file with one record a key.
//
//	Acquire ─→ committer ─→ raises.<generation>    one append and one sync
//	                    └─→ current ─→ frozen      in memory, the newest records
//	                                      └─fold─→ tokens.db   in the background
//	Load ─→ current ─→ frozen ─→ tokens.db         the first that has the key
//
// One process at a time has a store open (lock.go). One goroutine, the
// committer, decides all raises: it gathers the marks of concurrent callers
// into a batch (group.go), reads the records of their keys and decides each
// caller's marks on their own (batch.go, commit.go), appends what has changed
// to the log as one frame (frame.go, log.go), and syncs it. Only then readers
// see it (recent.go) and callers have their answer.
//
// A log that is long enough is replaced by that of the next generation
// (rotate.go), and its records, which do not change any more, are folded into
// the file with as few pages as possible (fold.go). The transaction that ends
// a fold also says, in the file, up to which generation all is folded; then the
// old log is removed. Raises that come faster than they can be folded wait.
//
// A key that is forgotten (forget.go) goes through the committer like a raise,
// and stands in the log as a record that is none, until the fold removes it from
// the file. A list (list.go) merges a page of the file with what is in memory.
//
// Open (open.go) trusts no file. bbolt initialises an empty one, panics on a
// cut one, and waits for a lock (header.go). The logs that are not folded are
// replayed (scan.go, replay.go): a crash tears at most the last frame of the
// last log, which nobody was told of; anything else that is not whole is
// damage, and no store is opened. A clean stop folds everything, so that a
// store with its marker has no raise in a log.
//
// A write that fails for want of space is taken back and the store goes on; any
// other failed write, and each failed sync, ends its use (failure.go).
//
// Leases go the same way (lease.go): they are decided in the same batches,
// stand in the same frames, and are folded together. All of them are in memory
// (leasetable.go).
//
// The file has four buckets. keys holds one sealed record a key (record.go)
// and, as its sequence, their number; leases holds one sealed lease a key that
// somebody holds (leaserecord.go), counted likewise; about (about.go) holds the
// format version, the marker of a clean stop, which logs count, and the last
// token that was granted; rules holds the fingerprints of the rules.
package embedded
