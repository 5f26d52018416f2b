package session

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// longWait is when a wait for another proxy is worth a line in the log.
const longWait = time.Second

// waits are the holds in phase waiting.
type waits struct {
	mu    sync.Mutex // guards what follows; taken last
	holds map[*hold]struct{}
}

func (w *waits) init() { w.holds = map[*hold]struct{}{} }

func (w *waits) add(h *hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds[h] = struct{}{}
}

func (w *waits) drop(h *hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.holds, h)
}

func (w *waits) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.holds)
}

func (w *waits) all() map[*hold]struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.holds)
}

// looks are keys to be looked at soon.
type looks struct {
	kick chan struct{} // capacity 1
	mu   sync.Mutex    // guards what follows; taken last
	keys map[tokenstore.Key]struct{}
}

func (l *looks) init() {
	l.kick = make(chan struct{}, 1)
	l.keys = map[tokenstore.Key]struct{}{}
}

func (l *looks) add(keys ...tokenstore.Key) {
	l.mu.Lock()
	for _, key := range keys {
		l.keys[key] = struct{}{}
	}
	l.mu.Unlock()
	kick(l.kick)
}

func (l *looks) take() map[tokenstore.Key]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := l.keys
	l.keys = map[tokenstore.Key]struct{}{}
	return keys
}

// poll looks at the keys on which something waits, and at those that look
// names. It finds whatever the watch has missed.
func (s *Store) poll() {
	tick := time.NewTicker(s.opts.PollEvery)
	defer tick.Stop()
	for {
		due := false
		select {
		case <-s.ctx.Done():
			return
		case <-s.look.kick: // what is asked for now; the others can wait
		case <-tick.C:
			due = true
		}
		// The holds that wait are noted before the store is read. What a later
		// one waits for may be missing in what is read just because it was not
		// there yet. The keys come first: a hold that asks for its key waits by then,
		// and would not be among those for whose sake it is looked at.
		keys := s.look.take()
		before := s.waits.all()
		if due {
			for h := range before {
				s.tellWait(h)
				keys[h.entry.Key] = struct{}{}
			}
		}
		for batch := range slices.Chunk(slices.Collect(maps.Keys(keys)), MaxBatch) {
			if err := s.lookAt(batch, before); err != nil {
				s.look.retry(batch)
			}
		}
	}
}

// retry puts keys back without haste.
func (l *looks) retry(keys []tokenstore.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.keys[key] = struct{}{}
	}
}

// lookAt reads the state of some keys and takes over what it tells.
func (s *Store) lookAt(keys []tokenstore.Key, before map[*hold]struct{}) error {
	var states []State
	err := s.call(s.ctx, OpLook, func(ctx context.Context) (err error) {
		states, err = s.backend.Look(ctx, keys)
		return err
	})
	if err != nil {
		return err
	}
	for i := range states {
		st := &states[i]
		if st.Exists {
			s.raisedElsewhere(tokenstore.Mark{Key: st.Key, Token: st.Record.Highest, Holder: st.Record.Holder})
		}
		s.takeOver(st, before)
	}
	return nil
}

// takeOver ends the wait for entries that are gone, and removes entries of
// this proxy that nobody owns (R8).
func (s *Store) takeOver(st *State, before map[*hold]struct{}) {
	open := make(map[id]struct{}, len(st.Open))
	for i := range st.Open {
		open[st.Open[i].id()] = struct{}{}
	}
	sh := s.table.of(st.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sl := sh.slots[st.Key]
	for i := range st.Open {
		e := &st.Open[i]
		if s.own.has(e.Session) && (sl == nil || sl.find(e.id()) == nil) {
			s.removals.add(true, removal{entry: *e})
		}
	}
	if sl == nil {
		return
	}
	for i := range st.Overtaken {
		if h := sl.find(st.Overtaken[i].id()); h != nil {
			s.foundOne(h)
		}
	}
	s.hurry(sl, st.Open)
	for h := sl.holds; h != nil; h = h.next {
		if _, ok := before[h]; !ok {
			continue
		}
		for e := range h.older {
			if _, still := open[e]; !still && sl.find(e) == nil {
				s.gone(sl, e)
			}
		}
	}
}

// tellWait logs, once, that a hold waits for long, and for whom.
func (s *Store) tellWait(h *hold) {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	if h.phase != waiting || h.told || time.Since(h.began) < longWait {
		return
	}
	h.told = true
	sessions := map[string]struct{}{}
	for e := range h.older {
		sessions[e.session.String()] = struct{}{}
	}
	s.log.Info("waiting for older writes at other proxies", zap.String("key", string(h.entry.Key)), zap.Stringer("token", h.entry.Token),
		zap.Strings("sessions", slices.Sorted(maps.Keys(sessions))))
}
