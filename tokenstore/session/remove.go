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

// removals are those that are not deleted yet. Those that somebody waits for go
// first: a session that has ended may leave a hundred thousand others.
type removals struct {
	kick   chan struct{} // capacity 1
	mu     sync.Mutex    // guards what follows; taken last
	urgent []removal
	others []removal
}

func (r *removals) init() { r.kick = make(chan struct{}, 1) }

// add takes entries up. One that is there already does no harm.
func (r *removals) add(urgent bool, more ...removal) {
	r.mu.Lock()
	if urgent {
		r.urgent = append(r.urgent, more...)
	} else {
		r.others = append(r.others, more...)
	}
	r.mu.Unlock()
	kick(r.kick)
}

// take returns the next batch, and whether it is urgent.
func (r *removals) take() (batch []removal, urgent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := &r.urgent
	if len(*from) == 0 {
		from = &r.others
	}
	n := min(len(*from), MaxBatch)
	batch, urgent = (*from)[:n:n], from == &r.urgent
	if *from = (*from)[n:]; len(*from) == 0 {
		*from = nil
	}
	return batch, urgent
}

// remove deletes entries that may go, in batches: those that came while the
// last batch was on its way. One whose result is not known is deleted again,
// which does no harm, since an identity is used once (R8, X10).
func (s *Store) remove() {
	const first = 50 * time.Millisecond
	pause := first
	for {
		batch, urgent := s.removals.take()
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
		s.removals.add(urgent, batch...)
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
