package session

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var (
	errDeadline = errors.New("the session was not confirmed before its deadline")
	errClosed   = errors.New("it is closed")
	errNone     = errors.New("there is no session")
)

// maxDoubts is how many keys with an unknown result are told apart.
const maxDoubts = 4096

// life is one session of this proxy.
type life struct {
	id ID
	// ctx ends with the session; its cause is why. Its Done is Grant.Lost.
	ctx      context.Context
	end      context.CancelCauseFunc
	deadline atomic.Int64 // by the clock: from then on nothing may be sent (R5)

	mu     sync.Mutex                  // guards what follows; taken last
	doubts map[tokenstore.Key]struct{} // an acquire with an unknown result may still commit (R8)
	many   bool                        // there are more than that
}

// over reports whether the session has ended. It never begins again (R10).
func (l *life) over() bool { return l.ctx.Err() != nil }

// maySend is R5: asked immediately before a write is sent.
func (l *life) maySend(now time.Duration) bool {
	return now < time.Duration(l.deadline.Load()) && !l.over()
}

// confirm moves the deadline to that of a keepalive which was confirmed. It
// counts from when it was sent, which is before the store's own time began.
func (l *life) confirm(deadline time.Duration) {
	for {
		old := l.deadline.Load()
		if int64(deadline) <= old || l.deadline.CompareAndSwap(old, int64(deadline)) {
			return
		}
	}
}

// doubt notes that an entry on key may exist, or come to exist, which has no
// hold.
func (l *life) doubt(key tokenstore.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.doubts) < maxDoubts {
		l.doubts[key] = struct{}{}
	} else {
		l.many = true
	}
}

// doubted reports whether key may have such an entry.
func (l *life) doubted(key tokenstore.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.doubts[key]
	return ok || l.many
}

// doubtful reports whether any key may.
func (l *life) doubtful() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.doubts) > 0
}

// begin registers a new session. One whose registration has an unknown result
// is not used: it goes by itself.
func (s *Store) begin(ctx context.Context) (*life, error) {
	l := &life{doubts: map[tokenstore.Key]struct{}{}}
	_, _ = rand.Read(l.id[:]) // never fails
	sent := s.opts.Clock()
	if err := s.call(ctx, OpBegin, func(ctx context.Context) error { return s.backend.Begin(ctx, l.id, s.opts.TTL) }); err != nil {
		return nil, err
	}
	l.ctx, l.end = context.WithCancelCause(s.ctx)
	l.deadline.Store(int64(sent + s.opts.TTL - s.opts.Margin))
	s.own.add(l.id)
	s.life.Store(l)
	s.log.Info("session begun", zap.Stringer("session", l.id))
	return l, nil
}

// keep keeps one session after the other, until the store is closed.
func (s *Store) keep(l *life) {
	for {
		s.keepOne(l)
		if s.ctx.Err() != nil {
			return
		}
		s.log.Warn("session lost: what is in flight is cut, and nothing fenced is sent until there is a new one",
			zap.Stringer("session", l.id), zap.NamedError("why", context.Cause(l.ctx)))
		s.retire(l)
		for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			next, err := s.begin(s.ctx)
			if err == nil {
				l = next
				break
			}
			if !sleep(s.ctx, pause) {
				return
			}
		}
	}
}

// keepOne sends keepalives until the session is over. The guard beside it
// cuts at the deadline, whatever a keepalive is waiting for.
func (s *Store) keepOne(l *life) {
	var guard sync.WaitGroup
	guard.Go(func() { s.guard(l) })
	defer guard.Wait()
	tick := time.NewTicker(s.opts.keepEvery())
	defer tick.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-tick.C:
			s.keepAlive(l)
		}
	}
}

// keepAlive sends one keepalive. The raises that came with it are taken over
// before the deadline moves: a proxy that does not hear of raises must not go
// on, or others would wait for its entries for ever (R7, X7).
func (s *Store) keepAlive(l *life) {
	ctx, cancel := context.WithTimeout(l.ctx, s.opts.keepEvery())
	defer cancel()
	var overtaken []tokenstore.Mark
	sent := s.opts.Clock()
	err := s.call(ctx, OpKeepAlive, func(ctx context.Context) (err error) {
		overtaken, err = s.backend.KeepAlive(ctx, l.id, s.opts.TTL)
		return err
	})
	switch {
	case errors.Is(err, ErrSessionOver):
		l.end(err)
	case err != nil:
		s.log.Warn("a keepalive was not confirmed", zap.Stringer("session", l.id), zap.Duration("remaining", s.Remaining()), zap.Error(err))
	default:
		for _, m := range overtaken {
			if known := s.heardOf(m); !known {
				s.look.add(m.Key) // an entry that no hold knows (R8)
			}
			s.foundOn(m.Key, true)
		}
		l.confirm(sent + s.opts.TTL - s.opts.Margin)
	}
}

// guard ends the session at its deadline. The timers of the runtime stand
// still in suspend, so it looks at the clock often enough to be no more than a
// fraction of the margin late after that.
func (s *Store) guard(l *life) {
	for {
		left := time.Duration(l.deadline.Load()) - s.opts.Clock()
		if left <= 0 {
			l.end(errDeadline)
			return
		}
		if !sleep(l.ctx, min(left, s.opts.Margin/8)) {
			return
		}
	}
}

// sleep waits for d, and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// owned are the sessions of this proxy whose entries may still exist.
type owned struct {
	mu  sync.Mutex // taken last
	ids map[ID]struct{}
}

func (o *owned) add(s ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids = map[ID]struct{}{}
	}
	o.ids[s] = struct{}{}
}

func (o *owned) drop(s ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.ids, s)
}

func (o *owned) has(s ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.ids[s]
	return ok
}

func (o *owned) all() (ids []ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.ids {
		ids = append(ids, s)
	}
	return ids
}
