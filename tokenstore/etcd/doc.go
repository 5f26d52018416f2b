// Package etcd is the engine of the shared store over etcd, 3.4 or newer.
//
// Under the prefix of a store there are
//
//	format                      what this is: the version of all below
//	opened                      when a proxy last started, for people
//	about                       what session.Backend.Update keeps
//	sess/SESSION                a session that is registered, until End
//	alive/SESSION               the same on a lease: gone with the lease
//	mark/KEY                    the record of a key (record.go)
//	call/N                      a key on which an acquire that has raised nothing
//	                            has found older entries: what the watch tells
//	open/KEY 0 TOKEN SESSION NONCE
//	own/SESSION/TOKEN NONCE KEY an entry, found by its key and by its session
//	lease/KEY                   who holds the lease of a key (lease.go)
//	granted                     the last token that was granted with one
//	ended                       the key of the last one that was ended, for watches
//
// with sessions in hex behind sess/, alive/ and own/, and all else in bytes of
// fixed width (layout.go), so that their order is that of the tokens.
//
// A raise of one key is one transaction of nested conditions, which etcd
// decides at one moment; several keys are read and then written on condition
// that they have not changed (acquire.go).
//
// Two ways of etcd that look right are not taken (session.go, watch.go). A lease
// is never renewed: renewals do not go through consensus, so that a leader that
// was replaced may confirm one that its successor never hears of, or revoke what
// its successor has renewed. Each keepalive gets a lease of its own. And what
// a watch has seen is not asked for with a progress request, which older
// servers answer ahead of the events; a keepalive writes where the watch is
// looking, and waits until it hears of itself.
//
// etcd keeps the history of all keys until it is compacted, so its
// --auto-compaction-retention should be set. A watch that falls behind a
// compaction makes good for what it has missed (watch.go).
package etcd
