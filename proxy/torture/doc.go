// Package torture holds the whole proxy against its promises, from outside:
// the built binary as a process, real sockets, a backend that delays, drops
// and applies late, clients that stall and leave, relays that harm their
// connections, and blow after blow on the process: kill -9, SIGTERM, SIGSTOP,
// reloads, a full disk. RESULTS.md has what was run and found.
//
// What happens is kept as a History, one line of events in one order. Judges
// are pure functions over it; each knows one promise of the protocol. A run
// that was too quiet (nothing refused, nothing waited, nothing overtaken)
// fails as well, see Tally.
//
// Nothing of this package is linked into the binary. It is meant for one
// machine: all clocks are the test process's own, all sockets are loopback.
package torture
