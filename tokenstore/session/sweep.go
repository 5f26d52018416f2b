package session

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// observed are the sessions of other proxies that were seen as gone, and when,
// by the clock of this one (R9).
type observed struct {
	mu sync.Mutex
	at map[ID]time.Duration
}

// sweep looks at the sessions: entries of those that are gone are removed after
// linger, by whoever comes first, whether somebody waits for them or not.
func (s *Store) sweep() {
	reconciled := time.Now()
	for sleep(s.ctx, s.opts.SweepEvery) {
		s.shutIdle()
		alive, err := s.observe()
		if err != nil {
			continue
		}
		for _, session := range s.lingered() {
			s.clearAway(session)
		}
		l := s.life.Load()
		due := time.Since(reconciled) >= s.opts.ReconcileEvery
		for _, session := range s.own.all() {
			switch {
			case session != l.id:
				s.leaveBehind(session, alive)
			case due && l.doubtful():
				_, _ = s.orphans(session)
			}
		}
		if due {
			reconciled = time.Now()
		}
	}
}

// observe reads which sessions are alive and notes those that are gone.
func (s *Store) observe() (alive map[ID]bool, err error) {
	// Whom somebody waits for is noted before the store is read: a session that
	// began after the reading would look like one that is gone.
	waited := s.waitedFor()
	err = s.call(s.ctx, OpSessions, func(ctx context.Context) (err error) {
		alive, err = s.backend.Sessions(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	now := s.opts.Clock() // after the answer: linger is counted from too late rather than too early
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	for session := range s.seen.at {
		if _, registered := alive[session]; !registered && !waited[session] || alive[session] {
			delete(s.seen.at, session)
		}
	}
	note := func(session ID) {
		if _, known := s.seen.at[session]; !known && !s.own.has(session) {
			s.seen.at[session] = now
			s.log.Info("the session of another proxy is gone; its entries are removed when linger is over",
				zap.Stringer("session", session), zap.Duration("linger", s.opts.Linger))
		}
	}
	for session, ok := range alive {
		if !ok {
			note(session)
		}
	}
	for session := range waited {
		if !alive[session] {
			note(session)
		}
	}
	return alive, nil
}

// waitedFor are the sessions whose entries somebody waits for.
func (s *Store) waitedFor() map[ID]bool {
	sessions := map[ID]bool{}
	for h := range s.waits.all() {
		h.shard.mu.Lock()
		for e := range h.older {
			sessions[e.session] = true
		}
		h.shard.mu.Unlock()
	}
	return sessions
}

// lingered returns the sessions whose linger time is over: what they had in
// flight is applied, or never will be (R9).
func (s *Store) lingered() (sessions []ID) {
	now := s.opts.Clock()
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	for session, at := range s.seen.at {
		if now-at >= s.opts.Linger {
			sessions = append(sessions, session)
		}
	}
	return sessions
}

// clearAway removes all that a session has left behind.
func (s *Store) clearAway(session ID) {
	entries, err := s.entries(session)
	if err != nil {
		return
	}
	batch := make([]removal, len(entries))
	for i := range entries {
		batch[i].entry = entries[i]
	}
	if len(batch) > 0 {
		s.log.Info("linger is over: the entries of a session that is gone are removed", zap.Stringer("session", session), zap.Int("entries", len(batch)))
	}
	for len(batch) > 0 {
		n := min(len(batch), MaxBatch)
		if err := s.delete(s.ctx, batch[:n]); err != nil {
			return // the next sweep tries again
		}
		batch = batch[n:]
	}
	s.forget(s.ctx, session)
}

// leaveBehind removes what an earlier session of this proxy left: its owner
// knows which of its writes are not settled, and need not wait for linger.
func (s *Store) leaveBehind(session ID, alive map[ID]bool) {
	left, err := s.orphans(session)
	if err == nil && left == 0 && !alive[session] { // while it is alive a late acquire may commit
		s.forget(s.ctx, session)
	}
}

// orphans removes the entries of a session of this proxy that have no hold
// (R8, X12), and returns how many entries there were.
func (s *Store) orphans(session ID) (n int, err error) {
	entries, err := s.entries(session)
	if err != nil {
		return 0, err
	}
	for i := range entries {
		// Looked up after the reading: every hold stands in the table before its
		// entry does.
		if !s.table.has(&entries[i]) {
			s.removals.add(false, removal{entry: entries[i]})
		}
	}
	return len(entries), nil
}

func (s *Store) entries(session ID) (entries []Entry, err error) {
	err = s.call(s.ctx, OpEntries, func(ctx context.Context) (err error) {
		entries, err = s.backend.Entries(ctx, session)
		return err
	})
	return entries, err
}

// forget ends the registration of a session that has no entries.
func (s *Store) forget(ctx context.Context, session ID) {
	if err := s.call(ctx, OpEnd, func(ctx context.Context) error { return s.backend.End(ctx, session) }); err == nil {
		s.own.drop(session)
	}
}

// shutIdle gives back what was not used for long.
func (s *Store) shutIdle() {
	now := s.opts.Clock()
	s.now.Store(int64(now))
	for i := range s.table.shard {
		sh := &s.table.shard[i]
		sh.mu.Lock()
		for sh.oldest != nil && now-sh.oldest.since >= s.opts.IdleAfter {
			s.shut(sh.oldest)
		}
		sh.mu.Unlock()
	}
}
