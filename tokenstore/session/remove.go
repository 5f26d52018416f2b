package session

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// removal is an entry that may be deleted, and its hold where it has one.
type removal struct {
	entry Entry
	hold  *hold
}

// removals are those that are not deleted yet.
type removals struct {
	kick chan struct{} // capacity 1
	mu   sync.Mutex    // guards what follows; taken last
	list []removal
}

func (r *removals) init() { r.kick = make(chan struct{}, 1) }

func (r *removals) add(more ...removal) {
	r.mu.Lock()
	r.list = append(r.list, more...)
	r.mu.Unlock()
	kick(r.kick)
}

// take returns the next batch.
func (r *removals) take() []removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.list), MaxBatch)
	batch := r.list[:n:n]
	if r.list = r.list[n:]; len(r.list) == 0 {
		r.list = nil
	}
	return batch
}

// remove deletes entries that may go, in batches: those that came while the
// last batch was on its way. One whose result is not known is deleted again,
// which does no harm, since an identity is used once (R8, X10).
func (s *Store) remove() {
	const first = 50 * time.Millisecond
	pause := first
	for {
		batch := s.removals.take()
		if len(batch) == 0 {
			select {
			case <-s.removals.kick:
				continue
			case <-s.ctx.Done():
				return
			}
		}
		if err := s.delete(s.ctx, batch); err == nil {
			pause = first
			continue
		}
		s.removals.add(batch...)
		if !sleep(s.ctx, pause) {
			return
		}
		pause = min(2*pause, time.Second)
	}
}

// delete deletes entries, and forgets their holds once that is confirmed.
func (s *Store) delete(ctx context.Context, batch []removal) error {
	entries := make([]Entry, len(batch))
	for i := range batch {
		entries[i] = batch[i].entry
	}
	if err := s.call(ctx, OpDelete, func(ctx context.Context) error { return s.backend.Delete(ctx, entries) }); err != nil {
		return err
	}
	for i := range batch {
		if h := batch[i].hold; h != nil {
			h.shard.mu.Lock()
			h.shard.remove(h)
			h.shard.mu.Unlock()
		} else {
			s.goneElsewhere(&entries[i])
		}
	}
	return nil
}

// retire shuts everything of a session that is over (R10). What is in flight
// or unsettled keeps its entry until it is settled.
func (s *Store) retire(l *life) { s.retireAll(l.id) }

func (s *Store) retireAll(session ID) {
	n := 0
	for i := range s.table.shard {
		sh := &s.table.shard[i]
		sh.mu.Lock()
		for _, sl := range sh.slots {
			for h := sl.holds; h != nil; h = h.next {
				if h.entry.Session == session {
					s.shut(h)
					if h.uses > 0 {
						n++
					}
				}
			}
		}
		sh.mu.Unlock()
	}
	if n > 0 {
		s.log.Info("the entries of writes that are not settled stay until they are", zap.Stringer("session", session), zap.Int("entries", n))
	}
}
