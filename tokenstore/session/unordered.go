package session

import "github.com/fenceproxy/fenceproxy/tokenstore"

// What an entry stands for is in the highest bits of its nonce, so that engines
// store every kind in the same way.
const (
	// UnorderedNonce makes an entry Unordered.
	UnorderedNonce uint64 = 1 << 63
	// observedNonce says that who has put the entry waits for none.
	observedNonce uint64 = 1 << 62
)

// kind is what the nonce of an entry for m says beside its number.
func kind(m *tokenstore.Mark) uint64 {
	switch {
	case m.Unordered:
		return UnorderedNonce
	case m.Observed:
		return observedNonce
	}
	return 0
}

// Unordered reports whether e is of writes without a token that counts: it is
// below every token, the lowest too. Its own Token is the lowest, and says
// nothing.
func (e Entry) Unordered() bool { return e.Nonce&UnorderedNonce != 0 }

// Below reports whether a write with token t waits for e (R3).
func (e Entry) Below(t tokenstore.Token) bool { return e.Unordered() || e.Token.Less(t) }

// waits reports whether who has put e waits for the entries below it, as far
// as it shows.
func (e Entry) waits() bool { return e.Nonce&(UnorderedNonce|observedNonce) == 0 }

// fits reports whether the entry of h is one for a write with mark m.
func (h *hold) fits(m *tokenstore.Mark) bool {
	switch {
	case m.Unordered || h.entry.Unordered():
		return m.Unordered && h.entry.Unordered()
	case !m.Observed && !h.entry.waits() && h.phase != live:
		return false // it has to wait, and nobody would hurry for its sake
	}
	return h.entry.Token == m.Token && (m.Holder == "" || m.Holder == h.holder)
}

// overtaken reports whether h admits nothing any more: a higher token is on
// record. For an unordered one that says nothing, since it may have come later:
// it is overtaken once an acquire has found its entry, and those who come after
// that take a new one, for which nobody waits who was there before.
func (h *hold) overtaken() bool {
	if h.entry.Unordered() {
		return h.found
	}
	return h.slot.passed(h.entry.Token)
}

// foundOn takes over that an acquire of another proxy has found entries below
// its own on a key. again says that it may be an old story.
func (s *Store) foundOn(key tokenstore.Key, again bool) {
	sh := s.table.of(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sl := sh.slots[key]
	if sl == nil {
		return
	}
	// What is closing may be what is told of, for as long as it is: then nobody
	// has found the newer ones, or he waits for that one too, and it is told once
	// more when that is gone. Else each keepalive would shut what has just come.
	if !again || !sl.closing() {
		s.foundAll(sl)
	}
	for h := sl.holds; h != nil; h = h.next {
		if h.hurries() {
			s.look.add(key)
			return
		}
	}
}

// closing reports whether an entry of the key is on its way out.
func (sl *slot) closing() bool {
	for h := sl.holds; h != nil; h = h.next {
		if h.phase >= closing {
			return true
		}
	}
	return false
}

// foundAll shuts the unordered holds of a key. The lock is held.
func (s *Store) foundAll(sl *slot) {
	for h := sl.holds; h != nil; h = h.next {
		s.foundOne(h)
	}
}

// foundOne shuts h, if it is unordered. While its transaction is under way its
// entry may be there already, and who found it does not tell again: it is shut
// when it is done. The lock is held.
func (s *Store) foundOne(h *hold) {
	if !h.entry.Unordered() || h.found {
		return
	}
	h.found = true
	if h.phase == over { // somebody waits for what was not urgent until now
		s.removals.add(true, removal{h.entry, h})
	}
	s.shut(h)
}

// hurries reports whether writes under h may have to be hurried: those with a
// token that counts were, by the raise itself. The lock is held.
func (h *hold) hurries() bool {
	return !h.entry.waits() && h.uses > 0 && !h.hurried && h.overtaken()
}

// hurry tells the gate, once, where a write at another proxy waits for writes
// of this one that are unordered or only looked on: else it would wait for
// their clients. Entries of those that are only looked on there do not wait.
// The lock is held.
func (s *Store) hurry(sl *slot, open []Entry) {
	for h := sl.holds; h != nil; h = h.next {
		if !h.hurries() {
			continue
		}
		for _, e := range open {
			if e.waits() && h.entry.Below(e.Token) && !s.own.has(e.Session) {
				h.hurried = true
				s.news.hurry(h.entry.Key, e.Token)
				break
			}
		}
	}
}
