package gate

import (
	"context"
	"fmt"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

func (p *property) enter(rt *rapid.T) {
	var claims []Claim
	bare := 0
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]tokenstore.Key{"a", "b", "c"}), 1, 2, rapid.ID).Draw(rt, "keys") {
		if p.model.unordered && rapid.IntRange(0, 2).Draw(rt, "without a token") == 0 {
			bare++
			claims = append(claims, Claim{Key: key, Unordered: true})
			continue
		}
		near := p.disk.record(key).Highest.Major // most tokens are new, or the one in use
		claims = append(claims, Claim{Key: key, Token: tok(max(near, 1) + rapid.Uint64Range(0, 4).Draw(rt, "token") - 1)})
	}
	read := bare == 0 && rapid.IntRange(0, 5).Draw(rt, "read") == 0
	w := p.arrive(rt, claims, func(ctx context.Context, g *Gate, w *propertyWrite, patience time.Duration) error {
		return g.Enter(ctx, Request{Claims: claims, DrainTimeout: patience, Settle: settle, Read: read}, w.ticket)
	})
	w.read = read
	if w.bare() {
		p.seen["without a token"]++
	} else if bare > 0 {
		p.seen["with and without a token"]++
	}
}

// arrive lets a write come to the gate.
func (p *property) arrive(rt *rapid.T, claims []Claim, enter func(context.Context, *Gate, *propertyWrite, time.Duration) error) *propertyWrite {
	p.number++
	// It ends between two ticks, when nothing else happens.
	patience := time.Duration(rapid.SampledFrom([]int{5, 20, 100}).Draw(rt, "drain_timeout"))*time.Second + 500*time.Millisecond
	w := &propertyWrite{result: make(chan error, 1), ticket: new(Ticket), deadline: time.Now().Add(patience), behind: len(p.pending), others: p.others > 0,
		modelWrite: &modelWrite{name: fmt.Sprintf("write %d %v", p.number, claims), claims: claims, arrived: p.number}}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	p.model.writes = append(p.model.writes, w.modelWrite)
	p.pending = append(p.pending, w)
	g := p.gate
	go func() { w.result <- enter(ctx, g, w, patience) }()
	return w
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
	p.records = p.disk.keys() // not by this gate
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
