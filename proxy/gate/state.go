package gate

import (
	"fmt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// mark is what the gate knows of a key's record: a copy, never above what is
// on the disk, so that forgetting it costs a read and nothing else.
type mark struct {
	token  tokenstore.Token // highest; of no meaning while there is no record
	exists bool             // there is a record
	clear  bool             // the record says that every lower write was over
	holder string           // of token, where one is on record
	fresh  bool             // there was no record when this life of the proxy first looked
}

// above reports whether the record refuses t.
func (m mark) above(t tokenstore.Token) bool { return m.exists && t.Less(m.token) }

// is reports whether t is the highest token on record.
func (m mark) is(t tokenstore.Token) bool { return m.exists && m.token == t }

// state is what decides about the writes of one key. It has no lock, no
// clock and no I/O: the gate holds the key's lock around every call.
type state struct {
	loaded  bool             // durable was read from the store, or from a copy
	durable mark             // highest and clear, on disk
	high    tokenstore.Token // the highest token admitted or raised in memory
	hasHigh bool

	raising  bool             // a raise to raisedTo is on its way to the disk
	raisedTo tokenstore.Token // of meaning while raising

	leaving bool // the key is being forgotten: nothing is decided on it meanwhile

	current   int // writes in flight or unsettled with the token high
	older     int // the same with a lower token
	unordered int // the same without a token that counts: older than every token
}

// verdict is what a write has to do next on one key.
type verdict uint8

const (
	admit     verdict = iota // durable, drained, the highest: register it
	drain                    // wait: an older write is not over, or a quarantine runs (rule 7)
	raise                    // its token, or its holder, is not on the disk yet (rules 5 and 6)
	pending                  // a higher token is not on the disk yet (rule 4)
	collision                // its token is another holder's, on the disk (rules 6 and 8)
	stale                    // a higher token is on the disk (rules 4 and 8)
	load                     // the record has not been read
	leaving                  // the key is being forgotten: wait for that
)

// decide says what a write with token t of holder has to do next; an empty
// holder collides with nobody. before is how many of the unordered writes it
// waits for, and q says what holds the key after a crash.
//
// The same function serves the early refusal of rule 4 and the decision that
// counts, rule 8: every answer but admit sends the write back here later.
func (s *state) decide(t tokenstore.Token, holder string, before int, q quarantine) verdict {
	switch {
	case s.leaving:
		return leaving // first of all: what is loaded now is about to go
	case !s.loaded:
		return load
	case s.durable.above(t):
		return stale
	case s.overtaken(t):
		// high > t, but not on disk: nobody may be told "stale" on it.
		return pending
	case !s.durable.is(t):
		// Equal tokens too: the first one's raise may not be on disk (A, A2).
		return raise
	case holder != "" && s.durable.holder == "":
		return raise // or a second holder could share the token
	case holder != "" && s.durable.holder != holder:
		return collision
	case s.older > 0 || before > 0:
		// Equal tokens too: the first one may still be waiting (B, B2).
		return drain
	case q == quarantineAll || q == quarantineUnclear && !s.durable.clear:
		// What was in flight at the crash may carry any token up to the one on
		// record (Q, E). Only where the record says that nothing lower was,
		// the holder of that very token goes on.
		return drain
	default:
		return admit
	}
}

// quarantine is what holds a key after a crash (rule 3).
type quarantine uint8

const (
	quarantineNone    quarantine = iota
	quarantineUnclear            // all but the highest token of a record that says clear
	quarantineAll                // every write: the record does not tell of all that was in flight
)

// overtaken reports whether a token above t was seen, durable or not.
func (s *state) overtaken(t tokenstore.Token) bool { return s.hasHigh && t.Less(s.high) }

// busy says why the key may not be forgotten now; "" for nothing that is known
// here.
func (s *state) busy() string {
	switch n := s.current + s.older + s.unordered; {
	case s.leaving:
		return "it is being forgotten already"
	case n == 1:
		return "a write is in flight or unsettled"
	case n > 1:
		return fmt.Sprintf("%d writes are in flight or unsettled", n)
	case s.raising:
		return "a raise of its token is on its way"
	}
	return ""
}

// forget takes over that the key has no record any more. Nothing was admitted
// on it meanwhile but unordered writes, which stay counted.
func (s *state) forget() {
	*s = state{loaded: true, durable: mark{fresh: true}, current: s.current, older: s.older, unordered: s.unordered}
}

// unload takes over that nobody knows whether the key has a record: the next
// write reads it again.
func (s *state) unload() {
	*s = state{current: s.current, older: s.older, unordered: s.unordered}
}

// fill takes over what was read from the store: by max(), since a raise may
// have been recorded after the read (H).
func (s *state) fill(rec tokenstore.Record, ok bool) {
	if !s.loaded {
		s.loaded = true
		s.durable.fresh = !ok
	}
	if ok {
		s.record(rec.Highest, rec.Clear, rec.Holder)
	}
}

// record notes that token is on disk. It never lowers anything (H).
func (s *state) record(token tokenstore.Token, clear bool, holder string) {
	s.loaded = true
	switch {
	case s.durable.above(token):
	case s.durable.is(token):
		s.durable.clear = s.durable.clear || clear
		if s.durable.holder == "" {
			s.durable.holder = holder
		}
	default:
		s.durable.token, s.durable.exists, s.durable.clear, s.durable.holder = token, true, clear, holder
	}
	s.lift(token)
}

// lift makes t the highest token in memory where it is higher (rule 5). From
// then on nothing lower registers, so that the drain is finite; what is
// registered already becomes older.
func (s *state) lift(t tokenstore.Token) {
	if s.hasHigh && !s.high.Less(t) {
		return
	}
	s.high, s.hasHigh = t, true
	s.older += s.current
	s.current = 0
}

// underway reports whether a raise that puts t, or a higher token, on the
// disk is running already.
func (s *state) underway(t tokenstore.Token) bool { return s.raising && !s.raisedTo.Less(t) }

// startRaise notes that the token high is on its way to the disk.
func (s *state) startRaise() { s.raising, s.raisedTo = true, s.high }

// endRaise notes that the raise to token has ended, well or not. A higher one
// may have begun since.
func (s *state) endRaise(token tokenstore.Token) {
	if s.raising && s.raisedTo == token {
		s.raising = false
	}
}

// drained reports whether nothing lower than high is in flight or unsettled:
// a raise to high may carry clear, unless a quarantine runs (rule 6).
func (s *state) drained() bool { return s.older == 0 && s.unordered == 0 }

// register counts a write in that was admitted: its token is the highest
// (rule 8).
func (s *state) register() { s.current++ }

// unregister counts a write out, and reports whether it was the last one that
// a raise waited for.
func (s *state) unregister(t tokenstore.Token) bool {
	if !s.overtaken(t) {
		s.current--
		return false
	}
	s.older--
	return s.older == 0
}

// copy returns what may stay in memory of a key that nobody holds; ok is false
// where that is not all that is known of it.
func (s *state) copy() (m mark, ok bool) {
	return s.durable, s.loaded && (!s.hasHigh || s.durable.is(s.high))
}
