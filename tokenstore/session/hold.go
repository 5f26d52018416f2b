package session

import (
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// phase is how far a hold is.
type phase uint8

const (
	acquiring phase = iota // its transaction is under way
	waiting                // its entry is in the store; older ones are not gone (R3)
	live                   // writes may be admitted under it (R4)
	closing                // admits nothing; what uses it is not over (R6)
	over                   // nothing of it is in flight or unsettled: its entry may go
)

// hold is one entry of this proxy in the store, and who uses it. The lock of
// its shard guards it. A use is counted from Acquire, before anything is sent,
// to Release, when the write is settled: while it is not 0, the entry stays,
// so that no order of events at this proxy can send a write without one (X9).
type hold struct {
	entry  Entry
	holder string
	life   *life
	shard  *shard
	slot   *slot
	next   *hold // in slot

	phase phase
	uses  int

	acq   *acquisition    // while acquiring
	early bool            // something went, or changed, on its key while it was acquiring
	older map[id]struct{} // while waiting: what it waits for
	// drained is closed when the hold is not waiting any more; nil for one that
	// never was.
	drained chan struct{}
	began   time.Time // of waiting
	told    bool      // that it waits for long

	found   bool // an acquire has found its entry, which is unordered
	hurried bool // the gate knows that somebody waits for it: see Store.hurry

	resting            bool // nobody uses it: see shard.rest
	since              time.Duration
	prevIdle, nextIdle *hold
}

// usable reports whether a write with mark m may use h, now or when its
// transaction is done. A holder that is not on record yet needs a transaction.
func (h *hold) usable(l *life, m *tokenstore.Mark) bool {
	return h.life == l && h.phase <= live && h.fits(m)
}

// use counts one user more. The lock is held.
func (h *hold) use() {
	h.uses++
	h.shard.wakeUp(h)
}

// release counts one user less (R6). The lock is held.
func (s *Store) release(h *hold) {
	if h.uses--; h.uses > 0 {
		return
	}
	switch h.phase {
	case closing:
		s.finish(h)
	case waiting, live:
		h.shard.rest(h, time.Duration(s.now.Load()))
		if h.shard.idle > s.opts.MaxIdle/shards {
			s.shut(h.shard.oldest)
		}
	default: // acquiring: seen to when the transaction is done; over: it was never sent under
	}
}

// settleIn is what follows a transaction that put the entry: the hold is live,
// or waits for the entries in older. The lock is held.
func (s *Store) settleIn(h *hold, older map[id]struct{}) {
	h.acq = nil
	h.phase = live
	if len(older) > 0 {
		h.phase, h.older = waiting, older
		h.drained, h.began = make(chan struct{}), time.Now()
		s.waits.add(h)
		if h.early {
			s.look.add(h.entry.Key) // what it waits for may be gone: nobody tells that twice
		}
	}
	if h.overtaken() || h.life.over() {
		s.shut(h)
		return
	}
	if h.uses == 0 {
		h.shard.rest(h, time.Duration(s.now.Load()))
	}
}

// shut makes a hold closing: it admits nothing from here on, and its entry is
// removed once nothing uses it. One that is being acquired is looked at when
// its transaction is done. The lock is held.
func (s *Store) shut(h *hold) {
	switch h.phase {
	case waiting:
		s.stopWaiting(h)
	case live:
	default:
		return
	}
	h.phase = closing
	h.shard.wakeUp(h)
	if h.uses == 0 {
		s.finish(h)
	}
}

// finish is the end of a hold: nothing of it is in flight or unsettled. Only
// now its entry may be deleted, by its nonce, and it is forgotten only when
// that is confirmed (X9, X10). The lock is held.
func (s *Store) finish(h *hold) {
	h.phase = over
	s.gone(h.slot, h.entry.id())
	s.removals.add(h.overtaken(), removal{h.entry, h})
}

// gone lets the holds of a key go on that waited for an entry. The lock is
// held.
func (s *Store) gone(sl *slot, e id) {
	for h := sl.holds; h != nil; h = h.next {
		if h.phase != waiting {
			continue
		}
		if delete(h.older, e); len(h.older) > 0 {
			continue
		}
		s.stopWaiting(h)
		h.phase = live
	}
}

// stopWaiting wakes those who wait for h. The lock is held.
func (s *Store) stopWaiting(h *hold) {
	s.waits.drop(h)
	h.older = nil
	close(h.drained)
	if s.opts.Observe.RemoteWait != nil {
		s.opts.Observe.RemoteWait(time.Since(h.began))
	}
}

// raised takes over that t is on record for the key of sl: holds with a lower
// token are shut (R4, R6). It reports whether that is news. The lock is held.
func (s *Store) raised(sl *slot, t tokenstore.Token) bool {
	news := sl.raise(t)
	for h := sl.holds; h != nil && news; h = h.next {
		if h.entry.Unordered() || !h.entry.Token.Less(sl.seen) {
			continue
		}
		if h.phase == over { // somebody waits for what was not urgent until now
			s.removals.add(true, removal{h.entry, h})
		}
		s.shut(h)
	}
	return news
}
