package gate

import (
	"context"
	"errors"
	"time"

	"pgregory.net/rapid"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// counted is the disk as a tokenstore.Counter.
type counted struct{ *disk }

func (c counted) Keys() int64 { return int64(c.keys()) }

func (d *disk) keys() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.records)
}

// newKeys is how many keys without a record those that wait, and more, would make
// one of.
func (p *property) newKeys(more ...*propertyWrite) int {
	keys := map[tokenstore.Key]bool{}
	for _, o := range append(more, p.pending...) {
		for _, c := range o.claims {
			if !c.Unordered && p.disk.record(c.Key).RaisedAt.IsZero() {
				keys[c.Key] = true
			}
		}
	}
	return len(keys)
}

// checkFlying makes sure that each write in flight hears of a higher token as
// soon as that is on the disk and not before, that one without a token hears of
// one that waits for it alone, and that the end of the session cuts what was
// sent in it.
func (p *property) checkFlying() {
	for _, w := range p.flying {
		higher, bare := false, false
		for _, c := range w.claims {
			bare = bare || c.Unordered
			higher = higher || !c.Unordered && c.Token.Less(p.disk.record(c.Key).Highest)
		}
		told, stale := closed(w.ticket.Overtaken()), w.ticket.Stale() != nil
		if higher && !told || stale != higher || told && !higher && !(bare && w.hurried) {
			p.Fatalf("%s is overtaken: %v (waited for: %v); it is told of it: %v, and is stale: %v", w.name, higher, w.hurried, told, stale)
		}
		if higher {
			p.seen["overtaken in flight"]++
		} else if told {
			p.seen["hurried"]++
		}
		if over := !w.ticket.MaySend(); over != closed(w.ticket.Lost()) {
			p.Fatalf("the session of %s is over: %v, and it is cut: %v", w.name, over, !over)
		} else if over {
			p.seen["cut"]++
		}
	}
}

// waitedFor notes that a write with a token waits for o.
func (p *property) waitedFor(o *modelWrite) {
	for _, w := range p.flying {
		w.hurried = w.hurried || w.modelWrite == o
	}
}

// record is an operator's raise that waits for no older write.
func (p *property) record(rt *rapid.T) {
	key := rapid.SampledFrom([]tokenstore.Key{"a", "b", "c"}).Draw(rt, "key")
	c := Claim{Key: key, Token: tok(p.disk.record(key).Highest.Major + rapid.Uint64Range(0, 2).Draw(rt, "token"))}
	w := p.arrive(rt, []Claim{c}, func(ctx context.Context, g *Gate, _ *propertyWrite, patience time.Duration) error {
		return g.Record(ctx, c, patience)
	})
	w.marks, w.read = true, true
}

// vouch is an operator's word that all unsettled writes of a key are over.
func (p *property) vouch(rt *rapid.T) {
	p.number++
	key, now := rapid.SampledFrom([]tokenstore.Key{"a", "b", "c"}).Draw(rt, "key"), time.Now()
	status := p.gate.Status(key, !p.disk.record(key).RaisedAt.IsZero())
	done, err := p.gate.Settle(key)
	if err != nil || len(done.Unsettled) != len(status.Unsettled) || done.Quarantine != (now.Before(p.model.quarantineEnd) && !p.model.vouched[key]) {
		p.Fatalf("settle %s: %+v, %v; its status was %+v", key, done, err, status)
	}
	p.model.vouched[key] = true
	for _, w := range p.model.writes {
		if _, ok := w.claim(key); ok && w.mayLand(now) && !w.until.IsZero() {
			w.over = true
			p.seen["vouched for"]++
		}
	}
}

// forget removes the record of a key on which nothing goes on.
func (p *property) forget(rt *rapid.T) {
	if p.shared || p.model.stopping {
		rt.Skip("not played")
	}
	p.number++
	key, now := rapid.SampledFrom([]tokenstore.Key{"a", "b", "c"}).Draw(rt, "key"), time.Now()
	busy := p.model.quarantines(key, now)
	for _, w := range p.model.writes {
		_, ok := w.claim(key)
		busy = busy || ok && w.mayLand(now)
	}
	for _, w := range p.pending {
		_, ok := w.token(key)
		busy = busy || ok
	}
	_, err := p.gate.Forget(context.Background(), key, nil)
	inUse := (*tokenstore.InUseError)(nil)
	switch {
	case err == nil:
		if busy || !p.disk.record(key).RaisedAt.IsZero() {
			p.Fatalf("%s was forgotten, and is in use, or has a record", key)
		}
		p.model.forgotten[key] = p.number
		delete(p.model.atBoot, key)
		for c := range p.model.kept {
			if c.Key == key {
				delete(p.model.kept, c)
			}
		}
		p.seen["forgotten"]++
	case errors.As(err, &inUse):
		if !busy && !p.unsure[key] && !now.Before(p.model.quarantineEnd) {
			p.Fatalf("forget %s: %v", key, err)
		}
		p.seen["not forgotten"]++
	case !errors.Is(err, tokenstore.ErrUnavailable) || p.disk.fail == nil:
		p.Fatalf("forget %s: %v", key, err)
	}
}

// reload changes what may change while the gate is in use.
func (p *property) reload(rt *rapid.T) {
	p.limits.MaxWaiting = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(rt, "max_waiting")
	if !p.shared {
		p.limits.MaxKeys = rapid.SampledFrom([]int64{0, 0, 1, 2}).Draw(rt, "max_keys")
	}
	p.room = p.disk.keys() + p.newKeys() // what is on its way already was let in
	o := p.limits
	o.Unordered = !p.shared && rapid.Bool().Draw(rt, "unordered") // it stays on once it was
	p.model.unordered = p.model.unordered || o.Unordered
	p.gate.Change(o)
	p.seen["reload"]++
}

// newGrant is a grant of the session of now. The disk's lock is held.
func (p *property) newGrant() tokenstore.Grant {
	l := &lease{drained: p.drained, stale: make(chan *tokenstore.StaleError), lost: p.lost}
	p.grants = append(p.grants, l)
	return l
}

// othersWrite lets other proxies have older writes on every key, or be done.
func (p *property) othersWrite(rt *rapid.T) {
	if !p.shared {
		rt.Skip("there are none")
	}
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	if p.others > 0 {
		p.others = 0
		close(p.drained)
		return
	}
	p.number++
	p.others, p.drained = p.number, make(chan struct{})
	for _, w := range p.pending {
		w.others = true // it may need another grant
	}
}

// endSession ends the session with the store: nothing more is sent under its
// grants, and what was is cut (R5, R10).
func (p *property) endSession(rt *rapid.T) {
	if !p.shared {
		rt.Skip("there is none")
	}
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	for _, g := range p.grants {
		g.over.Store(true)
	}
	close(p.lost)
	p.lost = make(chan struct{})
	for _, w := range p.pending {
		w.trouble = true
		w.lost = p.release == nil && !w.others // else it may have no grant yet
	}
	p.seen["session over"]++
}
