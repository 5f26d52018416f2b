// Package gate is the fencing protocol of one proxy: it lets a write pass
// when its token is the highest of its keys, on the disk, with every older
// write over, and holds newer ones back while it is in flight or its fate is
// not known.
//
// The comments name the protocol's rules by their numbers and its stories by
// their letters. What is decided is in state.go, pure; the waiting is in
// enter.go and queue.go; one admitted write is a Ticket. The gate knows no HTTP and the
// store knows no writes.
package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Options of a Gate.
type Options struct {
	// Settle is the longest time after which a write of before a crash may
	// still be applied: the longest settle of all rules. Above 0.
	Settle time.Duration
	// MaxWaiting is how many writes may wait in all, MaxWaitingPerKey how many
	// on one key; 0 or less stands for no limit.
	MaxWaiting, MaxWaitingPerKey int
	// MaxKeys is how many keys the store may have a record of by raises of this
	// gate; 0 or less stands for no limit. It needs a tokenstore.Counter.
	MaxKeys int64
	// Unordered lets writes pass that no record tells of: without a token, or
	// only looked on. It must be set where such may pass, and where they might
	// have before the crash that the store has recovered from: then a record
	// never says clear, and a quarantine holds every key, with a record or
	// without.
	Unordered bool
	// CachedMarks is how many marks of idle keys are kept in memory; 0 stands
	// for 65,536 (about 15 MB with keys of 20 bytes).
	CachedMarks int
}

// Gate admits writes. Its methods may be called by any number of goroutines.
type Gate struct {
	store tokenstore.Store
	table *table
	opts  Options
	sole  bool               // no other proxy uses the store: what is durable needs no Acquire
	keeps tokenstore.Keeper  // the store, where it is one; else nil
	count tokenstore.Counter // the same

	unordered                    atomic.Bool // see Options and Change
	maxWaiting, maxWaitingPerKey atomic.Int64
	maxKeys                      atomic.Int64

	quarantine    atomic.Bool // of every key that had a record at boot (rule 3)
	quarantineEnd time.Time
	stopping      atomic.Bool
	stop          chan struct{} // closed when stopping
	life          context.Context
	endLife       context.CancelFunc // the same for those who take a context

	waiting  atomic.Int64 // tickets
	doubtful atomic.Int64 // entries in doubt
	newKeys  atomic.Int64 // keys without a record, with a raise on its way to the disk

	idle chan struct{} // capacity 1: something may have become quiet
	done sync.WaitGroup
}

// New returns a gate over store. After an unclean end of the store's last
// life it quarantines the keys until Settle from now is over (rule 3).
func New(store tokenstore.Store, o Options) (*Gate, error) {
	if o.Settle <= 0 {
		return nil, fmt.Errorf("gate: settle must be above 0, it is %v", o.Settle)
	}
	if o.CachedMarks <= 0 {
		o.CachedMarks = 1 << 16
	}
	table, err := newTable(o.CachedMarks)
	if err != nil {
		return nil, err
	}
	g := &Gate{store: store, table: table, opts: o, sole: store.Raised() == nil,
		stop: make(chan struct{}), idle: make(chan struct{}, 1)}
	g.keeps, _ = store.(tokenstore.Keeper)
	if g.count, _ = store.(tokenstore.Counter); g.count == nil && o.MaxKeys > 0 {
		return nil, errors.New("gate: there is a limit of keys, and the store does not count them")
	}
	g.Change(o)
	g.life, g.endLife = context.WithCancel(context.Background())
	if store.Recovered() {
		g.quarantine.Store(true)
		g.quarantineEnd = time.Now().Add(o.Settle)
		time.AfterFunc(o.Settle, g.endQuarantine)
	}
	if !g.sole {
		g.done.Go(g.follow)
	}
	return g, nil
}

// Change takes over what may change while the gate is in use: MaxWaiting,
// MaxWaitingPerKey and MaxKeys, and Unordered, which stays on once it was. Before it is turned
// on the store must remember it (what is recorded as clear from then on is not
// believed after a crash), and only behind Change may such writes come.
func (g *Gate) Change(o Options) {
	g.maxWaiting.Store(int64(o.MaxWaiting))
	g.maxWaitingPerKey.Store(int64(o.MaxWaitingPerKey))
	g.maxKeys.Store(o.MaxKeys)
	if o.Unordered {
		g.unordered.Store(true)
	}
}

// Check is the early refusal of rule 4: it returns the error of a claim that
// is implausible, stale or a collision by what is on disk, an error that wraps
// tokenstore.ErrUnavailable when the store does not answer, and nil for
// everything else. It admits nothing and raises nothing. It waits for the
// store for patience at the most. t is memory only, which Enter may use again.
func (g *Gate) Check(ctx context.Context, claims []Claim, patience time.Duration, t *Ticket) error {
	t.prepare(g, &Request{Claims: claims})
	t.lock()
	t.attach()
	v, err := t.check()
	if v != load {
		t.phase = over
		t.detach()
		t.unlock()
		return err
	}
	t.unlock()
	defer t.leave()
	for v == load {
		loading, cancel := context.WithTimeout(ctx, patience)
		err = g.load(loading, t)
		cancel()
		if err != nil {
			return err
		}
		t.lock()
		v, err = t.check()
		t.unlock()
	}
	return err
}

// check is one look at the claims; its error counts unless one of them has to
// be loaded first. The locks are held.
func (t *Ticket) check() (verdict, error) {
	v, c := t.decide()
	if err := t.implausible(); err != nil {
		return v, err
	}
	return v, t.refusal(v, c)
}

// implausible looks for a token that is too far above the highest on disk.
// Highest only grows, so that no later look could find what this one did not.
// A key without a record, and a higher epoch, may begin anywhere. The locks
// are held.
func (t *Ticket) implausible() error {
	for i := range t.claims {
		c := &t.claims[i]
		d := &c.entry.durable
		if !c.Unordered && c.MaxJump > 0 && d.exists && c.Token.Epoch == d.token.Epoch && c.Token.Major > d.token.Major && c.Token.Major-d.token.Major > c.MaxJump {
			return &ImplausibleError{Key: c.Key, Token: c.Token, Highest: d.token}
		}
	}
	return nil
}

// endQuarantine lets the writes go on that waited for those of before the
// crash.
func (g *Gate) endQuarantine() {
	g.quarantine.Store(false)
	for i := range g.table.shard {
		s := &g.table.shard[i]
		s.mu.Lock()
		s.vouched = nil
		s.mu.Unlock()
	}
	g.wakeAll()
	g.quiet()
}

// wakeAll makes every waiting ticket look again.
func (g *Gate) wakeAll() {
	for i := range g.table.shard {
		s := &g.table.shard[i]
		s.mu.Lock()
		for _, e := range s.active {
			e.wake()
		}
		s.mu.Unlock()
	}
}

// heldBy tells what quarantine holds the key of c. The key's lock is held.
func (g *Gate) heldBy(c *claim) quarantine {
	switch {
	case !g.quarantine.Load():
		return quarantineNone
	case c.shard.vouched[c.Key]:
		return quarantineNone // an operator says that what was in flight is over
	case c.Suspect, g.unordered.Load():
		return quarantineAll
	case c.entry.durable.fresh:
		return quarantineNone
	}
	return quarantineUnclear
}

// follow takes over what other proxies raise, until the gate stops; then Idle does.
func (g *Gate) follow() {
	for {
		select {
		case m, ok := <-g.store.Raised():
			if !ok {
				return
			}
			g.raisedElsewhere(m)
		case <-g.stop:
			return
		}
	}
}

// raisedElsewhere notes a raise of another proxy: nothing lower registers
// from here on.
func (g *Gate) raisedElsewhere(m tokenstore.Mark) {
	s := g.table.of(m.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.active[m.Key]; e != nil {
		e.recorded(m.Token, false, m.Holder)
		if m.Unordered {
			e.hurry(m.Token)
		}
		e.wake()
		return
	}
	s.idle.Remove(m.Key)
}
