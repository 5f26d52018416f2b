// Package stories tells the stories of the protocol's third section over a real
// engine: X1 to X10 and X12, one test each, in real time, with two proxies'
// session.Store in one process. (X11 is that of an engine which loses what it
// has acknowledged, and is Redis' own test.)
//
// w1 is at RA and w2, with the higher token, at RB. What is held against them
// is the upstream, which applies what it was sent as late as it may. Nothing
// else depends on when something happens but how long a test waits before it
// gives up: a busy machine makes a story longer, and not wrong, unless it holds
// a step back for longer than margin/2 (A7).
//
// Behind each of them stands what was broken, to see it fail on etcd and on
// PostgreSQL; most of that is in the table of proxy/torture/mutants.
package stories

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Place is one new, empty store in an engine.
type Place struct {
	// Address is where the engine listens, as HOST:PORT.
	Address string
	// Open opens one more way to the store, with the engine at address.
	Open func(t *testing.T, address string) session.Backend
}

// Run tells all of them, each in a place of its own.
func Run(t *testing.T, place func(t *testing.T) Place) {
	t.Helper()
	for _, s := range []struct {
		name string
		tell func(t *testing.T, p Place)
	}{
		{"X1 cut off from the store alone", x1},          // R5, nothing is cut at the deadline; R9, no linger
		{"X2 paused between the check and the send", x2}, // R9, no linger
		{"X3 sent after the session", x3},                // R5, no session check before the send
		{"X4 the clock stood still", x4},                 // R5, the check trusts the timers
		{"X5 entries outlive their session", x5},         // R1, entries are deleted with their session
		{"X6 a grant of the session before", x6},         // R10, a new session keeps the grants of the old one
		{"X7 a dead watch", x7},                          // R7, a keepalive counts without its proof
		{"X8 raise and entry are one step", x8},          // R2, the entry is put in a transaction of its own
		{"X9 an idle entry is on its way out", x9},       // R4, a grant is used while its entry is being deleted
		{"X10 an old delete arrives", x10},               // R6, an entry is acquired again with the nonce of before
		{"X12 an acquire commits later", x12},            // R8, nobody looks for entries without an owner
		{"X12 and nobody asks for it", x12Unasked},       // R8, nor for those that nobody asks for
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.tell(t, place(t))
		})
	}
}
