// Package redis keeps the shared store of several proxies in one Redis (or
// Valkey) server, as a session.Backend. Every call is one Lua script, which
// Redis runs as one transaction: a raise costs one round trip.
//
// Redis replicates after it has answered. A failover can therefore lose what
// was acknowledged, and with it the fence of the last moments (X11): package
// session's promises hold only for as long as the server is the same and keeps
// what it has acknowledged. What is done about that here:
//
//   - A server that is empty, or another store, has not the marker that Init
//     made: every script looks at it first.
//   - Every script counts as one that writes, also those that only read: a
//     replica refuses them, so that nobody reads what is behind.
//   - A session counts its acquires, here and in the store. Where the store has
//     fewer, it has lost some, and the session ends at its next call.
//
// The names, behind the prefix, and what they hold:
//
//	store                marker: format and a random identity
//	about                what the proxies remember together
//	sessions             hash: session → when it expires, or "gone"
//	acquires             hash: session → how many acquires were made in it
//	keys                 sorted set: all resource keys, for lists
//	record:KEY           token, when it was recorded, holder
//	open:KEY             sorted set: the entries of a key, the lowest token first
//	own:SESSION          sorted set: the entries of a session
//	overtaken:SESSION    hash: its entries that an acquire has found → the token of that
//	leases               hash: resource key → who holds its lease
//	granted              the last token that was granted with a lease
//
// None of them ever expires, and Redis must not evict them.
package redis
