package gate

import "context"

// Stop ends the admission of writes: those that wait get ErrStopping, those
// in flight go on (rule 12). It may be called more than once.
func (g *Gate) Stop() {
	// Under every key's lock, so that no write is between its decision and its
	// registration: from here on the counts only fall.
	for i := range g.table.shard {
		g.table.shard[i].mu.Lock()
	}
	before := g.stopping.Swap(true)
	for i := range g.table.shard {
		g.table.shard[i].mu.Unlock()
	}
	if before {
		return
	}
	close(g.stop)
	g.endLife()
	g.done.Wait()
	g.quiet()
}

// Idle waits, after Stop, until nothing is in flight, nothing is unsettled
// and no quarantine runs (F2, F3). Only then the store may be closed as
// clean. It returns ctx's error when that ends first.
//
// Meanwhile it takes over what other proxies raise: a new holder there waits for
// what is in flight here, and would wait for its client if nobody cut that (L1).
func (g *Gate) Idle(ctx context.Context) error {
	raised := g.store.Raised()
	for g.table.open() || g.quarantine.Load() {
		select {
		case <-g.idle:
		case m, ok := <-raised:
			if !ok {
				raised = nil // the store is closed: nothing is told any more
				continue
			}
			g.raisedElsewhere(m)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// quiet makes Idle look again.
func (g *Gate) quiet() {
	select {
	case g.idle <- struct{}{}:
	default:
	}
}

// Stopped returns a channel that is closed by Stop: what would go on for ever
// is to end then.
func (g *Gate) Stopped() <-chan struct{} { return g.stop }

// Stopping reports whether Stop was called.
func (g *Gate) Stopping() bool { return g.stopping.Load() }
