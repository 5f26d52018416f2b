package gate

import (
	"context"
	"errors"
	"time"
)

// ErrWouldWait is what Observe tells of a write that Enter would have made
// wait for older ones.
var ErrWouldWait = errors.New("it would have waited for older writes")

// Observe is Enter for a rule that only looks on: it records and registers the
// write as Enter does, refuses nothing, and waits for nothing but the record.
// would is what Enter would have done: nil, ErrWouldWait, or one of its errors.
//
// After a nil err the write is in flight and is sent. err is ErrStopping or
// ErrLeft, and then nothing may be sent.
func (g *Gate) Observe(ctx context.Context, r Request, t *Ticket) (would, err error) {
	t.prepare(g, r.Claims)
	t.settle, t.since, t.read = r.Settle, r.Since.UnixNano(), r.Read
	t.lock()
	t.attach()
	t.unlock()
	start := time.Now()
	waiting, cancel := context.WithDeadline(ctx, start.Add(r.DrainTimeout))
	defer cancel()
	would = g.look(waiting, t)

	t.lock()
	switch {
	case g.stopping.Load():
		err = ErrStopping
	case left(ctx):
		err = ErrLeft
	default:
		t.dequeue()
		t.register(would == nil)
	}
	t.unlock()
	if t.queue != nil {
		t.queue.waited.Total = time.Since(start)
	}
	if err != nil {
		t.unqueue()
		t.leave()
		return nil, err
	}
	t.tellClear()
	return would, nil
}

// look records what Enter would have recorded, and tells what it would have
// done. A token that cannot be recorded counts in memory all the same.
func (g *Gate) look(ctx context.Context, t *Ticket) error {
	for {
		t.lock()
		v, c := t.decide()
		err := t.refusal(v, c)
		if t.queue == nil && (v == raise || v == pending) {
			t.enqueue()
		}
		if err == nil && t.queue != nil {
			err = t.queue.failed()
		}
		if err != nil {
			t.unlock()
			return err
		}
		if err = g.record(ctx, t, v, c); err != nil || v == admit || v == drain {
			if err == nil && v == drain {
				err = ErrWouldWait
			}
			return err
		}
	}
}
