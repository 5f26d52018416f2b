// Package embedded is the store of one proxy in a local file, on bbolt.
//
// A directory holds a store: tokens.db, and a lock file. One process at a time
// has it open. One goroutine, the committer, makes all changes: it gathers the
// marks of concurrent callers into one bbolt transaction (group.go), decides
// each caller's marks on their own (batch.go), and answers only when the
// transaction is on the disk. Open (open.go) trusts no file: bbolt initialises
// an empty one, panics on a cut one, and waits for a lock.
//
// The file has three buckets. keys holds one sealed record a key (record.go)
// and, as its sequence, their number; about holds the format version and the
// marker of a clean stop; rules holds the fingerprints of the rules.
package embedded
