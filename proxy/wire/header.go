// Package wire is what travels between a client and the proxy beside HTTP
// itself: the headers, the problems, the JSON of the admin API. The proxy,
// the admin listener and the client package share it; it imports nothing of
// them.
package wire

// The headers of an answer, set by the proxy alone: an upstream's own are
// removed. Both are structured fields (RFC 9651).
const (
	// HeaderResult tells what the fence decided.
	HeaderResult = "Fencing-Result"
	// HeaderForwarded tells whether the upstream may have got the write.
	HeaderForwarded = "Fencing-Forwarded"
)

// HeaderPrefix begins, in canonical form, the names that the proxy keeps to
// itself in answers.
const HeaderPrefix = "Fencing-"

// ResultAdmitted is the result of a write that passed the fence.
const ResultAdmitted = "admitted"

// ResultRejected is the result of a write that was refused, and why.
func ResultRejected(n Name) string { return "rejected;reason=" + string(n) }

// ResultWouldReject is the result of a write that only an observing rule has
// let through, and why it would have been refused.
func ResultWouldReject(n Name) string { return "would-reject;reason=" + string(n) }

// ResultWouldWait is the result of a write that an observing rule did not
// let wait for older ones.
const ResultWouldWait = "would-wait"

// Forwarded tells whether the upstream may have got a write.
type Forwarded string

// The three answers: the upstream answered it, it never got it, or nobody
// can tell.
const (
	ForwardedYes     Forwarded = "yes"
	ForwardedNo      Forwarded = "no"
	ForwardedUnknown Forwarded = "unknown"
)
