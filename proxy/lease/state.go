package lease

import (
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// state is what an issuer knows of the lease of one key, and all that it
// decides by: no lock, no I/O, and a clock that is handed in.
//
// A store of one proxy changes by this issuer alone, so state is the truth and
// the store its memory. In a shared store it is what this issuer saw last: then
// a lease has run out once its ID and its Beat stood there for its whole TTL
// by this issuer's own clock, from when they were first seen. Whoever made that
// Beat has counted from before it.
type state struct {
	sole  bool             // nobody else changes the store
	lease tokenstore.Lease // what stands in the store
	until time.Duration    // when it runs out, unless it is pinned: it lives no shorter
	from  time.Duration    // what its holder's time is counted from: it is told no longer
	// pinned: it is in the store, but its holder was not told yet: older writes
	// drain, and the time that is told begins behind that.
	pinned bool
	// offered: its holder has given it back, and it counts no more. It stands in
	// the store until the next one's takes its place, or it is ended.
	offered bool
	// unsure: a call ended without a result. What stands in the store may be
	// something else.
	unsure bool
	// gone are leases that count no more, should the store still have them, or get
	// them late: their holder gave them up, or was never told. One that was renewed
	// since, at another proxy, is another lease in this.
	gone []tokenstore.Lease
}

// maxGone is how many of them are remembered; what falls out has to run out.
const maxGone = 8

// held reports whether somebody holds the lease.
func (s *state) held(now time.Duration) bool {
	return s.lease.Held() && (s.pinned || now < s.until)
}

// owns reports whether id is the lease that is held, and that its holder knows
// of: it alone is renewed and released.
func (s *state) owns(id string, now time.Duration) bool {
	return id != "" && s.lease.ID == id && !s.pinned && s.held(now)
}

// left is how long the lease has to live.
func (s *state) left(now time.Duration) time.Duration {
	switch {
	case !s.held(now):
		return 0
	case s.pinned:
		return s.lease.TTL
	}
	return s.until - now
}

// saw notes what the store said. A lease that is new to this issuer, or was
// renewed at another one, lives its full TTL from now: no shorter than its
// holder believes. What only this issuer changes has not become any younger.
func (s *state) saw(l tokenstore.Lease, now time.Duration) {
	known := s.lease
	s.lease, s.unsure = l, false
	s.offered = s.offered && known.Same(l)
	switch {
	case known.Same(l), s.sole && l.ID == known.ID:
	case s.isGone(l):
		s.until, s.pinned = now, false
	case l.ID == known.ID:
		// A beat of ours without a result may be found here long after the other
		// issuers have seen it: they count from then, so its holder's time does not
		// begin anew, or two would have the lease at its end.
		s.until = now + l.TTL
	default:
		s.from, s.until, s.pinned = now, now+l.TTL, false
	}
	if !l.Held() {
		s.until, s.pinned = 0, false
	}
}

// granted notes a new lease, which is pinned: it is not told yet. The store was
// asked for it at from; other issuers may have seen it since then.
func (s *state) granted(l tokenstore.Lease, from, now time.Duration) {
	s.pinned = true
	s.renewed(l, from, now)
}

// renewed notes that the store took a renewal that it was asked for at from.
func (s *state) renewed(l tokenstore.Lease, from, now time.Duration) {
	s.lease, s.from, s.until, s.unsure, s.offered = l, from, now+l.TTL, false, false
}

// offer says that its holder gives the lease back.
func (s *state) offer(now time.Duration) { s.until, s.offered = now, true }

// extend lets the lease live its full TTL from now.
func (s *state) extend(now time.Duration) { s.from, s.until = now, now+s.lease.TTL }

// told is what its holder may rely on.
func (s *state) told(now time.Duration) Held {
	return Held{s.lease, max(0, s.from+s.lease.TTL-now)}
}

// ended notes that nobody holds the lease any more, in the store too.
func (s *state) ended() {
	s.lease, s.until, s.pinned, s.unsure, s.offered = tokenstore.Lease{}, 0, false, false, false
}

// giveUp says that a lease counts no more, whatever the store has of it: a grant
// that may be made late, or a release whose result is not known.
func (s *state) giveUp(l tokenstore.Lease, now time.Duration) {
	if len(s.gone) == maxGone {
		s.gone = slices.Delete(s.gone, 0, 1)
	}
	s.gone = append(s.gone, l)
	s.unsure = true
	if s.lease.Same(l) {
		s.until, s.pinned = now, false
	}
}

func (s *state) isGone(l tokenstore.Lease) bool { return slices.ContainsFunc(s.gone, l.Same) }

// wasLost reports whether the lease that stands there was its holder's until it
// ran out, rather than one that was given back, or that nobody believes in.
func (s *state) wasLost() bool { return s.lease.Held() && !s.offered && !s.isGone(s.lease) }
