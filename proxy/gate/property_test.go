package gate

import (
	"context"
	"errors"
	"flag"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// TestModel lets commands in any order meet the gate and compares it, after each
// of them, with the model: nothing is sent that may not be, nobody waits for
// nothing or longer than he said, every refusal is true, and in the end nothing
// is left.
func TestModel(t *testing.T) {
	// By the clock of the bubble: hours are over in a moment. A failure is
	// repeated by the seed that it prints.
	for name, value := range map[string]string{"rapid.shrinktime": "10h", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]int{}
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			// rapid asks a *testing.T for its deadline, which has none in here.
			rapid.Check(struct{ *testing.T }{t}, func(rt *rapid.T) {
				p := newProperty(rt, seen)
				defer p.end()
				rt.Repeat(p.commands())
				p.quiet()
			})
		})
	}
	for _, what := range []string{"sent", "waited", "read", "stale", "overtaken", "drain timeout", "unavailable", "left", "stopping", "quarantined", "crash", "clean stop", "raise elsewhere",
		"without a token", "with and without a token", "recorded", "vouched for", "forgotten", "not forgotten", "reload", "overloaded", "too many keys", "overtaken in flight", "hurried", "session over", "cut"} {
		if seen[what] < 5 {
			t.Errorf("it came only %d times to %q: this run shows nothing of it", seen[what], what)
		}
	}
	t.Log(seen)
}

// commands are what may happen next, by their names; check comes behind each.
func (p *property) commands() map[string]func(*rapid.T) {
	seldom := func(command func(*rapid.T)) func(*rapid.T) {
		return func(rt *rapid.T) {
			if rapid.IntRange(0, 4).Draw(rt, "does it") != 0 {
				rt.Skip("seldom")
			}
			command(rt)
		}
	}
	return map[string]func(*rapid.T){
		"":                p.check,
		"enter":           p.enter,
		"enter, again":    p.enter, // more often than the others
		"and again":       p.enter,
		"once more":       p.enter,
		"settle":          p.settle,
		"unsettle":        p.unsettle,
		"leave":           p.leave,
		"time passes":     p.timePasses,
		"raise elsewhere": p.raiseElsewhere,
		"hold the disk":   seldom(p.holdDisk),
		"fail the disk":   seldom(p.failDisk),
		"crash":           seldom(p.crash),
		"stop":            seldom(p.stop),
		"record":          seldom(p.record),
		"vouch":           seldom(p.vouch),
		"forget":          seldom(p.forget),
		"reload":          seldom(p.reload),
		"others write":    seldom(p.othersWrite),
		"end the session": seldom(p.endSession),
	}
}

// property is the gate, its disk, and the model beside them.
type property struct {
	*rapid.T
	seen    map[string]int
	disk    *disk
	gate    *Gate
	model   model
	shared  bool // other proxies raise
	release func()
	pending []*propertyWrite
	flying  []*propertyWrite
	number  int

	limits  Options                 // as the last reload has set them
	records int                     // of the disk, at the last check
	room    int                     // and with those on their way, at the last reload
	unsure  map[tokenstore.Key]bool // the store failed a raise: nobody knows what is on the disk

	// Of a shared store, guarded by the disk's lock:
	grants  []*lease
	lost    chan struct{} // of the session
	drained chan struct{} // of every grant; open while others have older writes
	others  int           // since when they have, by the number of a write; 0 for none
}

// propertyWrite is a write at the gate of this life.
type propertyWrite struct {
	*modelWrite
	ticket   *Ticket
	cancel   context.CancelFunc
	result   chan error
	deadline time.Time
	waited   bool
	behind   int  // how many were waiting when it came
	hurried  bool // it has no token somewhere, and one with a token has waited for it
	others   bool // other proxies had older writes meanwhile
	lost     bool // the session of its grant is over
}

func newProperty(rt *rapid.T, seen map[string]int) *property {
	p := &property{T: rt, seen: seen, shared: rapid.IntRange(0, 3).Draw(rt, "shared") == 0,
		disk: &disk{records: map[tokenstore.Key]tokenstore.Record{}}}
	p.model.unordered = !p.shared && rapid.IntRange(0, 3).Draw(rt, "unordered") == 0
	if p.shared {
		p.disk.raised, p.disk.grant = make(chan tokenstore.Mark), p.newGrant
		p.lost, p.drained = make(chan struct{}), make(chan struct{})
		close(p.drained)
	}
	p.boot()
	return p
}

// boot begins a life of the proxy on what the disk has.
func (p *property) boot() {
	o := p.limits
	o.Settle, o.CachedMarks, o.Unordered = settle, 1, p.model.unordered
	var store tokenstore.Store = counted{p.disk}
	if p.shared {
		store = p.disk // nobody counts the keys of a shared one
	}
	g, err := New(store, o)
	if err != nil {
		p.Fatal(err)
	}
	p.gate, p.pending, p.flying, p.model.stopping = g, nil, nil, false
	p.model.vouched, p.model.kept, p.unsure = map[tokenstore.Key]bool{}, map[Claim]int{}, map[tokenstore.Key]bool{}
	if p.model.forgotten == nil {
		p.model.forgotten = map[tokenstore.Key]int{}
	}
}

// check compares the gate with the model.
func (p *property) check(*rapid.T) {
	synctest.Wait()
	p.troubled()
	now := time.Now()
	var waiting, fresh []*propertyWrite
	for _, w := range p.pending {
		select {
		case err := <-w.result:
			w.cancel()
			if err == nil {
				w.sent, w.sentAt = true, p.number
				fresh = append(fresh, w)
			} else {
				p.refused(w, err)
			}
		default:
			w.waited = true
			waiting = append(waiting, w)
		}
	}
	p.pending = waiting
	for _, w := range fresh {
		if err := p.model.maySend(w.modelWrite, p.disk.record, now); err != nil {
			p.Fatal(err)
		}
		if !w.marks && (p.others > 0 && w.arrived > p.others || !w.ticket.MaySend()) {
			p.Fatalf("%s was sent without a grant, or before other proxies were done", w.name)
		}
		p.seen["sent"]++
		if w.marks {
			p.seen["recorded"]++
			continue
		}
		if w.waited {
			p.seen["waited"]++
		}
		if w.read {
			p.seen["read"]++
			continue
		}
		p.flying = append(p.flying, w)
	}
	for _, w := range p.pending {
		if now.After(w.deadline) {
			p.Fatalf("%s waits for %v too long", w.name, now.Sub(w.deadline))
		}
		for _, o := range p.model.older(w.modelWrite, now, false) {
			p.waitedFor(o)
		}
		if w.lost {
			p.Fatalf("%s waits, and the session of its grant is over", w.name)
		}
		if p.release != nil || w.others && p.others > 0 {
			continue // the disk does not answer, or other proxies write: it may wait for that
		}
		if err := p.model.mayWait(w.modelWrite, p.disk.record, now); err != nil {
			p.Fatal(err)
		}
		if p.model.quarantined(w.modelWrite, now) {
			p.seen["quarantined"]++
		}
	}
	p.checkFlying()
	if n := p.disk.keys(); n > p.records && p.limits.MaxKeys > 0 && n > max(int(p.limits.MaxKeys), p.room) {
		p.Fatalf("there are %d records, and may be %d", n, p.limits.MaxKeys)
	}
	p.records = p.disk.keys()
}

// refused makes sure that what the gate said is true.
func (p *property) refused(w *propertyWrite, err error) {
	var stale *StaleError
	var timeout *DrainTimeoutError
	switch {
	case errors.As(err, &stale):
		t, ok := w.token(stale.Key)
		if rec := p.disk.record(stale.Key); !ok || stale.Token != t || !t.Less(stale.Highest) || rec.Highest.Less(stale.Highest) {
			p.Fatalf("%s: %v, and the disk has %v", w.name, err, rec.Highest)
		}
		if p.seen["stale"]++; stale.Overtaken {
			p.seen["overtaken"]++
		}
	case errors.As(err, &timeout):
		older := p.model.older(w.modelWrite, w.deadline, true)
		if time.Now().Before(w.deadline) || len(p.model.older(w.modelWrite, w.deadline, false)) == 0 && !p.model.quarantined(w.modelWrite, w.deadline) && !w.others {
			p.Fatalf("%s: %v, too early, or it waited for nothing", w.name, err)
		}
		for _, o := range older {
			if o.until.IsZero() != (timeout.RetryAfter == 0) || !o.until.IsZero() && timeout.RetryAfter < o.until.Sub(w.deadline) {
				if !o.until.IsZero() && timeout.RetryAfter == 0 {
					continue // another one is in flight
				}
				p.Fatalf("%s: retry after %v, and %s may land until %v", w.name, timeout.RetryAfter, o.name, o.until.Sub(w.deadline))
			}
		}
		for _, c := range w.claims {
			if first, ok := p.model.kept[c]; !ok || w.arrived < first {
				p.model.kept[c] = w.arrived
			}
		}
		p.seen["drain timeout"]++
	case errors.Is(err, tokenstore.ErrUnavailable):
		if !w.trouble {
			p.Fatalf("%s: %v, and the store was well", w.name, err)
		}
		p.seen["unavailable"]++
	case errors.Is(err, ErrLeft):
		if !w.left {
			p.Fatalf("%s: %v, and its client is there", w.name, err)
		}
		p.seen["left"]++
	case errors.Is(err, ErrStopping):
		if !p.model.stopping {
			p.Fatalf("%s: %v, and nobody stops it", w.name, err)
		}
		p.seen["stopping"]++
	case errors.Is(err, ErrOverloaded):
		if p.limits.MaxWaiting == 0 || w.behind < p.limits.MaxWaiting {
			p.Fatalf("%s: %v, and %d were", w.name, err, w.behind)
		}
		p.seen["overloaded"]++
	case errors.Is(err, ErrTooManyKeys):
		if n := p.newKeys(w); n == 0 || p.limits.MaxKeys == 0 || int64(p.disk.keys()+n) <= p.limits.MaxKeys {
			p.Fatalf("%s: %v, and there are %d", w.name, err, p.disk.keys())
		}
		p.seen["too many keys"]++
	default:
		p.Fatalf("%s: %v", w.name, err)
	}
	for _, c := range w.claims {
		p.unsure[c.Key] = p.unsure[c.Key] || w.trouble
	}
}

// quiet lets everything come to its end: nothing is left then.
func (p *property) quiet() {
	p.disk.break_(nil)
	if p.release != nil {
		p.holdDisk(nil)
	}
	if p.others > 0 {
		p.othersWrite(nil)
	}
	for range 5 {
		for range 30 { // a minute, tick by tick
			p.check(nil)
			time.Sleep(2 * time.Second)
		}
		p.check(nil)
		for _, w := range p.flying {
			w.over = true
			w.ticket.Settle()
		}
		p.flying = nil
	}
	p.check(nil)
	if c := p.gate.Counts(); len(p.pending)+len(p.flying) > 0 || c.InFlight != 0 || c.Unsettled != 0 || c.Waiting != 0 || c.Quarantine {
		p.Fatalf("left behind: %+v, %d and %d", c, len(p.pending), len(p.flying))
	}
	for i, g := range p.grants {
		if n := g.released.Load(); n != 1 {
			p.Fatalf("grant %d of %d was released %d times", i, len(p.grants), n)
		}
	}
	for i := range p.gate.table.shard {
		for k, e := range p.gate.table.shard[i].active {
			if e.refs != 0 || !e.rests || e.registered != nil || len(e.waiters) != 0 || e.placeless != 0 {
				p.Fatalf("key %s: left behind: %+v", k, e)
			}
		}
	}
}

// end ends every goroutine, after a failure too.
func (p *property) end() {
	if p.release != nil {
		p.holdDisk(nil)
	}
	if p.others > 0 {
		p.othersWrite(nil)
	}
	for _, w := range append(p.pending, p.flying...) {
		w.cancel()
	}
	p.gate.Stop()
	synctest.Wait()
}
