package session

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// acquisition is one transaction that is under way, for one or several new
// holds of one session. Who needs one of them meanwhile waits for it.
type acquisition struct {
	life  *life
	holds []*hold
	marks []tokenstore.Mark

	// Set before done is closed.
	raised  bool
	err     error
	unknown bool          // err is about all keys: the store does not answer
	done    chan struct{} // closed when the holds know what became of them

	left atomic.Bool // who asked for it has not waited for the answer: see tellOwn
}

// Acquire implements tokenstore.Store. A mark for which this session has a
// live hold costs no I/O (R4).
func (s *Store) Acquire(ctx context.Context, marks []tokenstore.Mark) (tokenstore.Grant, error) {
	if err := tokenstore.CheckMarks(marks); err != nil {
		return nil, err
	}
	for {
		if ctx.Err() != nil {
			return nil, tokenstore.Unavailable(context.Cause(ctx))
		}
		l, err := s.current()
		if err != nil {
			return nil, err
		}
		g, acq, err := s.take(l, marks)
		if err != nil {
			return nil, err
		}
		if acq == nil {
			return g, nil
		}
		select {
		case <-acq.done:
		case <-ctx.Done():
			if g != nil {
				g.Release()
				acq.left.Store(true)
				s.tellOwn(acq)
			}
			return nil, tokenstore.Unavailable(context.Cause(ctx)) // the transaction goes on
		}
		switch {
		case g != nil && acq.err == nil:
			g.raised = acq.raised
			return g, nil
		case g != nil:
			g.Release()
			return nil, acq.err
		case acq.unknown:
			return nil, acq.err // asking again, one after the other, would not make it better
		}
	}
}

// Held implements tokenstore.Keeper: the local atomic step of R4 alone.
func (s *Store) Held(m tokenstore.Mark) (tokenstore.Grant, bool) {
	l := s.life.Load()
	if l.over() {
		return nil, false
	}
	sh := s.table.of(m.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	h, err := sh.decide(l, &m)
	if err != nil || h == nil || h.phase != live {
		return nil, false
	}
	h.use()
	return &grant{store: s, life: l, one: h}, true
}

// take decides about marks under the locks of their keys, which is the local
// atomic step of R4. It returns one of: a grant; a grant and the transaction,
// begun here, on which it depends; the transaction of somebody else after
// which to decide again; an error.
func (s *Store) take(l *life, marks []tokenstore.Mark) (*grant, *acquisition, error) {
	if len(marks) == 1 {
		sh := s.table.of(marks[0].Key)
		sh.mu.Lock()
		defer sh.mu.Unlock()
	} else {
		defer s.table.lock(marks)()
	}
	var some [1]*hold
	found, missing := some[:0], 0
	var others *acquisition
	for i := range marks {
		h, err := s.table.of(marks[i].Key).decide(l, &marks[i])
		switch {
		case err != nil:
			return nil, nil, err
		case h == nil:
			missing++
		case h.phase == acquiring:
			others = h.acq
		}
		found = append(found, h)
	}
	if others != nil {
		return nil, others, nil
	}
	var acq *acquisition
	if missing > 0 {
		acq = s.newAcquisition(l, marks, found)
		if acq == nil {
			return nil, nil, tokenstore.Unavailable(errClosed)
		}
	}
	for _, h := range found {
		h.use()
	}
	g := &grant{store: s, life: l, one: found[0]}
	if len(found) > 1 {
		g.more = append([]*hold(nil), found[1:]...)
	}
	return g, acq, nil
}

// decide returns the hold that a write with mark m may use, or nil where it
// needs a transaction, or the refusal that is known without one. The lock is
// held.
func (sh *shard) decide(l *life, m *tokenstore.Mark) (usable *hold, err error) {
	sl := sh.slots[m.Key]
	if sl == nil {
		return nil, nil
	}
	if !m.Unordered && sl.passed(m.Token) {
		return nil, &tokenstore.StaleError{Key: m.Key, Token: m.Token, Highest: sl.seen}
	}
	for h := sl.holds; h != nil; h = h.next {
		if h.usable(l, m) {
			return h, nil
		}
	}
	return nil, nil
}

// newAcquisition begins the transaction for the marks that have no hold yet,
// and puts their holds into found. The holds, and with them the nonces, are in
// the table before anything is sent: an entry whose nonce is not there has no
// owner (R8). It returns nil when the store is closed. The locks are held.
func (s *Store) newAcquisition(l *life, marks []tokenstore.Mark, found []*hold) *acquisition {
	acq := &acquisition{life: l, done: make(chan struct{})}
	for i := range marks {
		if found[i] != nil {
			continue
		}
		m := marks[i]
		m.Clear = false // this proxy cannot know that of the others' writes
		if m.Unordered {
			m.Token, m.Holder = tokenstore.Token{}, ""
		}
		h := &hold{
			entry:  Entry{Key: m.Key, Token: m.Token, Session: l.id, Nonce: s.nonce.Add(1) | kind(&m)},
			holder: m.Holder, life: l, shard: s.table.of(m.Key), acq: acq,
		}
		found[i] = h
		acq.holds, acq.marks = append(acq.holds, h), append(acq.marks, m)
	}
	for _, h := range acq.holds {
		h.shard.add(h)
	}
	if !s.start(func() { s.acquire(acq) }) {
		for _, h := range acq.holds {
			h.shard.remove(h)
		}
		return nil
	}
	return acq
}

// acquire runs the transaction. It belongs to the session and not to a caller:
// others may wait for it, and its entries have to be dealt with in any case.
func (s *Store) acquire(acq *acquisition) {
	wants := make([]Want, len(acq.holds))
	for i, h := range acq.holds {
		wants[i] = Want{acq.marks[i], h.entry.Nonce}
	}
	var got Acquired
	err := s.call(acq.life.ctx, OpAcquire, func(ctx context.Context) (err error) {
		got, err = s.backend.Acquire(ctx, acq.life.id, wants)
		return err
	})
	unlock := s.table.lock(acq.marks)
	if err == nil {
		s.recorded(acq, got.Older)
		acq.raised = got.Raised
		if acq.life.over() {
			err = tokenstore.Unavailable(context.Cause(acq.life.ctx))
		}
	} else {
		err = s.refused(acq, err)
	}
	unlock()
	acq.err = err
	close(acq.done)
	s.tellOwn(acq)
	if stale := (*tokenstore.StaleError)(nil); errors.As(err, &stale) {
		s.heardOf(tokenstore.Mark{Key: stale.Key, Token: stale.Highest})
	}
}

// tellOwn tells the gate of what was recorded for somebody who has left: nobody
// else does, and an equal raise of another proxy is no news here any more. That
// one would wait for a write with a lower token, which the gate does not know to
// be overtaken, and for its client. Both who leaves and the transaction's end
// call it, so that the later one finds that it is due.
func (s *Store) tellOwn(acq *acquisition) {
	select {
	case <-acq.done:
	default:
		return
	}
	if acq.err != nil || !acq.left.Load() {
		return
	}
	for _, m := range acq.marks {
		if !m.Unordered {
			s.news.add(tokenstore.Mark{Key: m.Key, Token: m.Token, Holder: m.Holder})
		}
	}
}

// recorded takes over a transaction that was made. The locks are held.
func (s *Store) recorded(acq *acquisition, older []Entry) {
	for _, h := range acq.holds {
		if h.entry.Unordered() { // it has raised nothing and waits for nothing
			s.settleIn(h, nil)
			continue
		}
		// First, so that what it shuts and nobody uses is not waited for.
		s.raised(h.slot, h.entry.Token)
		s.foundAll(h.slot)
		var wait map[id]struct{}
		for i := range older {
			e := &older[i]
			if e.Key != h.entry.Key || !e.Below(h.entry.Token) || s.settled(h.slot, e) {
				continue
			}
			if wait == nil {
				wait = map[id]struct{}{}
			}
			wait[e.id()] = struct{}{}
		}
		s.settleIn(h, wait)
	}
}

// settled reports whether an older entry is one of this proxy under which
// nothing can be in flight or unsettled: its hold is over, or it never came to
// have one. The lock is held.
func (s *Store) settled(sl *slot, e *Entry) bool {
	if !s.own.has(e.Session) {
		return false
	}
	h := sl.find(e.id())
	if h == nil {
		s.removals.add(true, removal{entry: *e})
	}
	return h == nil || h.phase == over
}

// refused takes over a transaction that has failed, and returns the error for
// those who asked. Only a refusal says that nothing was recorded; after
// anything else the entry may exist, now or later (R8, X12). The locks are
// held.
func (s *Store) refused(acq *acquisition, err error) error {
	stale, collision, damaged := (*tokenstore.StaleError)(nil), (*tokenstore.CollisionError)(nil), (*tokenstore.DamagedError)(nil)
	switch {
	case errors.As(err, &stale), errors.As(err, &collision), errors.As(err, &damaged):
	case errors.Is(err, ErrSessionOver):
		acq.life.end(err)
		err = tokenstore.Unavailable(err)
	default:
		acq.unknown = true
		err = tokenstore.Unavailable(err)
	}
	for _, h := range acq.holds {
		h.phase, h.acq = over, nil
		h.shard.remove(h)
		s.gone(h.slot, h.entry.id()) // nothing is ever sent under it
		if acq.unknown {
			acq.life.doubt(h.entry.Key)
			s.removals.add(true, removal{entry: h.entry})
		}
	}
	return err
}
