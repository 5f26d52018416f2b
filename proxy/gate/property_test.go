package gate

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	for range 10 {
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
	for _, what := range []string{"sent", "waited", "read", "stale", "overtaken", "drain timeout", "unavailable", "left", "stopping", "quarantined", "crash", "clean stop", "raise elsewhere"} {
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
		"settle":          p.settle,
		"unsettle":        p.unsettle,
		"leave":           p.leave,
		"time passes":     p.timePasses,
		"raise elsewhere": p.raiseElsewhere,
		"hold the disk":   seldom(p.holdDisk),
		"fail the disk":   seldom(p.failDisk),
		"crash":           seldom(p.crash),
		"stop":            seldom(p.stop),
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
}

// propertyWrite is a write at the gate of this life.
type propertyWrite struct {
	*modelWrite
	ticket   *Ticket
	cancel   context.CancelFunc
	result   chan error
	deadline time.Time
	waited   bool
}

func newProperty(rt *rapid.T, seen map[string]int) *property {
	p := &property{T: rt, seen: seen, shared: rapid.IntRange(0, 3).Draw(rt, "shared") == 0,
		disk: &disk{records: map[tokenstore.Key]tokenstore.Record{}}}
	if p.shared {
		p.disk.raised = make(chan tokenstore.Mark)
	}
	p.boot()
	return p
}

// boot begins a life of the proxy on what the disk has.
func (p *property) boot() {
	g, err := New(p.disk, Options{Settle: settle, CachedMarks: 1})
	if err != nil {
		p.Fatal(err)
	}
	p.gate, p.pending, p.flying, p.model.stopping = g, nil, nil, false
}

func (p *property) enter(rt *rapid.T) {
	p.number++
	var claims []Claim
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]tokenstore.Key{"a", "b", "c"}), 1, 2, rapid.ID).Draw(rt, "keys") {
		near := p.disk.record(key).Highest.Major // most tokens are new, or the one in use
		claims = append(claims, Claim{Key: key, Token: tok(max(near, 1) + rapid.Uint64Range(0, 4).Draw(rt, "token") - 1)})
	}
	// It ends between two ticks, when nothing else happens.
	patience := time.Duration(rapid.SampledFrom([]int{5, 20, 100}).Draw(rt, "drain_timeout"))*time.Second + 500*time.Millisecond
	read := rapid.IntRange(0, 5).Draw(rt, "read") == 0
	w := &propertyWrite{result: make(chan error, 1), ticket: new(Ticket), deadline: time.Now().Add(patience),
		modelWrite: &modelWrite{name: fmt.Sprintf("write %d %v", p.number, claims), claims: claims, read: read}}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	p.model.writes = append(p.model.writes, w.modelWrite)
	p.pending = append(p.pending, w)
	g := p.gate
	go func() {
		w.result <- g.Enter(ctx, Request{Claims: claims, DrainTimeout: patience, Settle: settle, Read: read}, w.ticket)
	}()
}

// some draws one of ws; there must be one.
func some(rt *rapid.T, ws []*propertyWrite) (*propertyWrite, int) {
	if len(ws) == 0 {
		rt.Skip("there is none")
	}
	i := rapid.IntRange(0, len(ws)-1).Draw(rt, "which")
	return ws[i], i
}

func (p *property) settle(rt *rapid.T) {
	w, i := some(rt, p.flying)
	w.over = true
	p.flying = append(p.flying[:i:i], p.flying[i+1:]...)
	w.ticket.Settle()
}

func (p *property) unsettle(rt *rapid.T) {
	w, i := some(rt, p.flying)
	w.until = time.Now().Add(settle)
	p.flying = append(p.flying[:i:i], p.flying[i+1:]...)
	w.ticket.Unsettle("lost")
	w.ticket.Settle() // only the first counts
}

// leave makes a client leave, before its write is sent or after.
func (p *property) leave(rt *rapid.T) {
	all := append(p.pending[:len(p.pending):len(p.pending)], p.flying...)
	w, _ := some(rt, all)
	w.left = w.left || !w.sent
	w.cancel()
}

func (p *property) timePasses(rt *rapid.T) {
	for range rapid.IntRange(1, 40).Draw(rt, "seconds") {
		time.Sleep(time.Second)
		p.check(rt)
	}
}

func (p *property) raiseElsewhere(rt *rapid.T) {
	if !p.shared || p.model.stopping || p.release != nil {
		rt.Skip("nobody else can")
	}
	m := tokenstore.Mark{Key: rapid.SampledFrom([]tokenstore.Key{"a", "b", "c"}).Draw(rt, "key")}
	m.Token = tok(p.disk.record(m.Key).Highest.Major + rapid.Uint64Range(0, 2).Draw(rt, "token"))
	p.disk.mu.Lock()
	rec, ok := p.disk.records[m.Key]
	next, _, err := rec.Raise(ok, m, time.Now())
	if err == nil {
		p.disk.records[m.Key] = next
	}
	p.disk.mu.Unlock()
	if err == nil {
		p.disk.raised <- m
		p.seen["raise elsewhere"]++
	}
}

// holdDisk makes raises hang, or go on.
func (p *property) holdDisk(*rapid.T) {
	if p.release == nil {
		p.release = p.disk.hold(&p.disk.holdSync)
		return
	}
	p.release()
	p.release = nil
}

func (p *property) failDisk(rt *rapid.T) {
	var err error
	if p.disk.fail == nil && rapid.Bool().Draw(rt, "fails") {
		err = tokenstore.ErrUnavailable
	}
	p.troubled() // those that it meets
	p.disk.break_(err)
}

// troubled notes which writes the store keeps from their way.
func (p *property) troubled() {
	for _, w := range p.pending {
		w.trouble = w.trouble || p.release != nil || p.disk.fail != nil
	}
}

// crash is kill -9 and a restart: what was sent may still land.
func (p *property) crash(rt *rapid.T) {
	if p.shared {
		rt.Skip("the entries of the old session are not played here")
	}
	p.seen["crash"]++
	p.reboot(true)
}

// stop is a clean stop where it comes to one within a time, and else a crash.
func (p *property) stop(rt *rapid.T) {
	if p.shared || p.release != nil {
		rt.Skip("not played")
	}
	p.gate.Stop()
	p.model.stopping = true
	p.check(rt)
	if len(p.pending) > 0 {
		p.Fatalf("%s waits after a stop", p.pending[0].name)
	}
	p.enter(rt) // it is refused
	p.check(rt)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rapid.IntRange(1, 40).Draw(rt, "shutdown_timeout"))*time.Second-500*time.Millisecond)
	defer cancel()
	err := p.gate.Idle(ctx)
	if idle := p.model.idle(time.Now()); idle != (err == nil) {
		p.Fatalf("Idle = %v, and the proxy is idle: %v", err, idle)
	}
	if err == nil {
		p.seen["clean stop"]++
	}
	p.reboot(err != nil)
}

func (p *property) reboot(unclean bool) {
	p.disk.mu.Lock()
	p.disk.crashes++
	p.disk.recovered = unclean
	if p.disk.holdSync != nil {
		close(p.disk.holdSync)
		p.disk.holdSync = nil
	}
	p.model.atBoot = map[tokenstore.Key]tokenstore.Record{}
	for k, rec := range p.disk.records {
		p.model.atBoot[k] = rec
	}
	p.disk.mu.Unlock()
	p.release = nil
	for _, w := range p.flying {
		w.until = time.Now().Add(settle)
	}
	old, gone := p.gate, append(p.pending, p.flying...)
	if unclean {
		p.model.quarantineEnd = time.Now().Add(settle)
	}
	p.boot()
	old.Stop() // only ends the waiting of a process that is gone
	for _, w := range gone {
		w.cancel()
	}
	synctest.Wait()
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
				w.sent = true
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
		p.seen["sent"]++
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
		if p.release != nil {
			continue // the disk does not answer: it may wait for that
		}
		if err := p.model.mayWait(w.modelWrite, p.disk.record, now); err != nil {
			p.Fatal(err)
		}
		if p.model.quarantined(w.modelWrite, now) {
			p.seen["quarantined"]++
		}
	}
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
		older := p.model.older(w.modelWrite, w.deadline)
		if time.Now().Before(w.deadline) || len(older) == 0 && !p.model.quarantined(w.modelWrite, w.deadline) {
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
	default:
		p.Fatalf("%s: %v", w.name, err)
	}
}

// quiet lets everything come to its end: nothing is left then.
func (p *property) quiet() {
	p.disk.break_(nil)
	if p.release != nil {
		p.holdDisk(nil)
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
	for i := range p.gate.table.shard {
		for k, e := range p.gate.table.shard[i].active {
			if e.refs != 0 || !e.rests || e.registered != nil || len(e.waiters) != 0 {
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
	for _, w := range append(p.pending, p.flying...) {
		w.cancel()
	}
	p.gate.Stop()
	synctest.Wait()
}
