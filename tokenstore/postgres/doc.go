// Package postgres is the shared store of several proxies in a PostgreSQL
// database: the small part of tokenstore/session that knows this engine. Init
// makes its tables and functions, Open checks them.
//
//	Backend ─→ calls (line.go): one function of schema.sql, one round trip, one transaction
//	        ─→ notes (notice.go): a hint to the others, behind the callers
//	        ─→ Watch (watch.go): the hints of the others, on a connection of its own
//
// Every change is one call of a function in the database (schema.sql), which
// commits with it. So no lock is ever held while a packet travels: a proxy that
// is cut off in the middle holds nobody back.
//
// Who is told what:
//
//   - Acquire marks the entries that it overtakes under the lock of their key,
//     and KeepAlive reads its session's own marked entries in the transaction
//     that makes it last. That is the proof of R7, and needs no notification.
//   - NOTIFY makes waiting short and nothing else. Anybody in the database may
//     send one, so it only names a key to look at. It is not sent in the
//     transaction that it tells of: PostgreSQL commits those that notify one
//     after the other, each with its fsync, in the whole cluster.
//
// What the operator must guarantee: the database is one that loses no
// acknowledged transaction (A5: fsync honest, a failover only to a synchronous
// standby, no restore of an old backup under running proxies), and its clock is
// not set forward by more than a part of the margin (A6): sessions run out by
// it. Every transaction here waits for its disk, and for the synchronous
// standbys, whatever synchronous_commit says.
//
// Between a proxy and the database there may be a pooler of sessions. One of
// transactions loses the notifications; raises are then found by polling.
package postgres
