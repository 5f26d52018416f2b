// Package session is the protocol of several proxies over one shared store,
// once for all engines: rules R1 to R10. A Store is what the gate sees; a
// Backend is the small part that an engine (etcd, PostgreSQL, Redis) adds.
//
//	Acquire ─→ table: a live hold? ──yes──→ Grant                  no I/O (R4)
//	              └──no──→ acquisition ─→ Backend.Acquire          one transaction (R2)
//	                           └─→ older entries? wait ─→ live     (R3)
//	Release ─→ the last one of a closing hold ─→ Backend.Delete    (R6)
//
// A proxy is one session (life.go) with a deadline, up to which its writes may
// be sent. It is moved by keepalives alone, counted from when they were sent,
// and at the deadline everything in flight is cut (R5). Nothing of a session
// outlives it but its entries in the store, which hold newer writes back at
// all proxies until their owner, or after the linger time anybody, removes
// them (R9, R10).
//
// A hold (hold.go) is one such entry and who uses it. Its phases:
//
//	acquiring ─→ waiting ─→ live ─→ closing ─→ over
//
// It is kept after its last use, so that the next write with the same token
// costs nothing, until a higher token is seen (raised.go), the session ends, or
// it was idle for long (sweep.go). Whatever the result of an acquire or a
// delete, if it is not known, the entry counts as existing (R8): its nonce is
// never used again, and it is removed whenever it shows up.
//
// Writes without a token that counts have holds too, below every token, that
// raise nothing and wait for nothing (unordered.go). Such a hold admits until an
// acquire has found its entry; who has found it waits for those that it admitted
// before, and for no later ones.
//
// What runs behind the callers: keep and guard (life.go) keep the session and
// cut it; poll (wait.go) looks after the entries that are waited for; sweep
// (sweep.go) looks after sessions that are gone; remove (remove.go) deletes
// entries; tell and follow (raised.go) take raises in and pass them on.
//
// Leases (lease.go) stand beside all that, and belong to no session: an engine
// swaps one for another where what is believed of it holds (leasebackend.go),
// and the token of a grant is made here.
package session
