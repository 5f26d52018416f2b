package gate

import (
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Claim is one fencing token on one resource key.
type Claim struct {
	Key   tokenstore.Key
	Token tokenstore.Token
	// Holder, when not empty, is who holds the token: an equal one of another
	// holder is refused.
	Holder string
	// Unordered says that the write has no token, or none that counts: it is
	// older than every token, is never refused, and waits for nothing. Token
	// decides nothing then. It needs Options.Unordered. A write whose key
	// nobody knows has a claim on the empty key: no fenced write waits for it,
	// but a stop does.
	Unordered bool
	// Suspect says that what is recorded of the key does not tell of every
	// write that may be in flight: its rule was changed. After a crash all its
	// writes wait for the quarantine, and its record never says clear.
	Suspect bool
	// MaxJump, above 0, is how far the Major of Token may be above the one on
	// disk. Only Check looks at it.
	MaxJump uint64
}

// Ticket is one write at the gate: first asking, then, once Enter returned
// nil, in flight, at last settled or unsettled. The caller provides the
// memory and must not use it again, for another write, before the write is
// over, and never once it was unsettled. A Ticket may be used by several goroutines after Enter.
type Ticket struct {
	gate   *Gate
	claims []claim // sorted by shard and key
	one    [1]claim
	settle time.Duration
	since  int64 // Unix time in nanoseconds

	read      bool   // holds nothing once it is admitted
	marksOnly bool   // wants its token recorded and nothing else: see Gate.Record
	looks     bool   // only looked on: see Observe
	phase     phase  // guarded by the locks of the shards of all claims: changed under all, read under any
	lost      *lost  // set with phase unsettled
	behind    func() // see Behind; guarded like phase

	grant tokenstore.Grant // nil until acquired; the caller's alone
	queue *queue           // nil until it waits; made under the locks, by the caller

	mu       sync.Mutex    // guards what follows; taken last
	passed   bool          // a higher token is on disk
	overtook chan struct{} // closed with passed; nil until somebody asks
}

// queue is what a ticket needs to wait.
type queue struct {
	woken   chan struct{} // capacity 1
	left    bool          // it waits no more; guarded like Ticket.phase
	mu      sync.Mutex    // guards failure; taken last
	failure error         // the raise that the ticket waited for failed
	waited  Waited

	late bool // the store refused its raise: the higher token was there before; the owner's

	// Guarded like Ticket.phase.
	overtook bool       // the older writes were told
	grace    *time.Time // when they are to be; nil as long as nothing waits for it
}

// lost tells of a write that was lost from sight.
type lost struct {
	until time.Time
	why   string
}

// Waited tells how a write got through Enter.
type Waited struct {
	Raised bool          // it recorded its token itself
	Raise  time.Duration // waiting for the disk, in raises of its own
	Drain  time.Duration // waiting for older writes
	Total  time.Duration // in Enter; 0 when it went straight through
}

// Waited tells how the write got through Enter, after Enter.
func (t *Ticket) Waited() Waited {
	if t.queue == nil {
		return Waited{}
	}
	return t.queue.waited
}

// claim is a Claim at its key.
type claim struct {
	Claim
	ticket     *Ticket
	shard      *shard
	entry      *entry
	prev, next *claim // in entry.registered
	toClear    bool   // the record does not say "clear" yet, but it is
	comes      bool   // its raise is one of entry.coming; guarded like that

	hurries uint64 // entry.hurries when it came
	seq     uint64 // of an unordered write: its number
	place          // of one that waits
}

// place is behind which unordered writes a fenced one comes. They are numbered
// as they register: it waits for those up to last, and before of these are not
// over. It does not wait for later ones, or a steady stream of them would keep
// every fenced write out.
type place struct {
	last   uint64
	before int
}

// waitsFor reports whether c, which waits, may not be sent before o is over.
func (c *claim) waitsFor(o *claim) bool {
	if o.Unordered {
		return o.seq <= c.last
	}
	return o.Token.Less(c.Token)
}

// unorderedBefore is how many unordered writes c waits for. The lock is held.
func (c *claim) unorderedBefore() int {
	if c.ticket.queue == nil { // not in the queue yet
		return c.entry.placeOf(c.Token).before
	}
	return c.before
}

// phase is how far a ticket is.
type phase uint8

const (
	asking phase = iota
	inFlight
	unsettled
	over
)

// Overtaken returns a channel that is closed once a higher token is on disk
// for one of the write's keys; for a write that is unordered or only looked
// on, once a fenced write waits for it. An upload that is not wholly sent is
// cut then, and a slow reader of the answer is detached (rule 7).
func (t *Ticket) Overtaken() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.overtook == nil {
		t.overtook = make(chan struct{})
		if t.passed {
			close(t.overtook)
		}
	}
	return t.overtook
}

// Hurry is as if the write had been overtaken: one that may be of the same
// resource, which the gate cannot know, waits for it.
func (t *Ticket) Hurry() { t.pass() }

// MaySend reports whether the write may still be sent. It is to be asked
// immediately before the first byte leaves (R5). One that is only looked on
// may, whatever the store says.
func (t *Ticket) MaySend() bool { return t.grant == nil || t.looks || t.grant.MaySend() }

// Lost is closed when the write must be cut because its grant does not hold
// any more (R5, R10). It is nil where that cannot happen.
func (t *Ticket) Lost() <-chan struct{} {
	if t.grant == nil || t.looks {
		return nil
	}
	return t.grant.Lost()
}

// Settle says that the write is over: answered in full with its request
// wholly sent, refused in full, or provably never sent (rule 10). Only the
// first of Settle and Unsettle counts.
func (t *Ticket) Settle() {
	t.lock()
	if t.phase != inFlight {
		t.unlock()
		return
	}
	t.finish()
}

// Unsettle says that the write was lost from sight, and why: it counts as
// still running until the settle time of its rule is over. It is what every
// path that does not know better must call; deferred, it catches panics too.
// Only the first of Settle and Unsettle counts.
func (t *Ticket) Unsettle(why string) {
	t.lock()
	defer t.unlock()
	if t.phase != inFlight {
		return
	}
	t.phase, t.lost = unsettled, &lost{until: time.Now().Add(t.settle), why: why}
	t.claims[0].shard.unsettled++
	time.AfterFunc(t.settle, t.settled)
}

// Behind has f called once the write, which was sent, is over: at once where it
// is. It is for one f, which must not block.
func (t *Ticket) Behind(f func()) {
	t.lock()
	if t.phase != over {
		t.behind, f = f, nil
	}
	t.unlock()
	if f != nil {
		f()
	}
}

// settled ends the time during which an unsettled write may still be applied.
func (t *Ticket) settled() {
	t.lock()
	if t.phase != unsettled {
		t.unlock()
		return
	}
	t.finish()
}

// finish takes the write off its keys, wakes who waited for it, and unlocks.
func (t *Ticket) finish() {
	t.end()
	t.unlock()
	t.after()
}

// end takes the write off its keys and wakes who waited for it. The locks are
// held.
func (t *Ticket) end() {
	first := t.claims[0].shard
	if t.phase == unsettled {
		first.unsettled--
	}
	first.open--
	t.phase = over
	for i := range t.claims {
		c := &t.claims[i]
		if c.entry.remove(c) {
			c.entry.wake()
		}
	}
	t.detach()
}

// after is what follows end without the locks.
func (t *Ticket) after() {
	if t.grant != nil {
		t.grant.Release()
	}
	if t.behind != nil {
		t.behind()
	}
	if t.gate.stopping.Load() {
		t.gate.quiet()
	}
}

// attach takes a reference on the entry of every claim. The locks are held.
func (t *Ticket) attach() {
	for i := range t.claims {
		c := &t.claims[i]
		c.entry = c.shard.hold(c.Key)
		c.hurries = c.entry.hurries
	}
}

// detach gives the references back. The locks are held.
func (t *Ticket) detach() {
	for i := range t.claims {
		c := &t.claims[i]
		c.shard.drop(c.entry)
		c.entry = nil
	}
}

// lock takes the locks of all claims' keys, in ascending order: two tickets
// never wait for each other in a ring.
func (t *Ticket) lock() {
	if len(t.claims) == 1 { // by far the most frequent
		t.claims[0].shard.mu.Lock()
		return
	}
	var last *shard
	for i := range t.claims {
		if s := t.claims[i].shard; s != last {
			s.mu.Lock()
			last = s
		}
	}
}

func (t *Ticket) unlock() {
	if len(t.claims) == 1 {
		t.claims[0].shard.mu.Unlock()
		return
	}
	var last *shard
	for i := range t.claims {
		if s := t.claims[i].shard; s != last {
			s.mu.Unlock()
			last = s
		}
	}
}

// wake makes a waiting ticket look again.
func (q *queue) wake() {
	select {
	case q.woken <- struct{}{}:
	default: // it is told already
	}
}

// fail makes a waiting ticket give up: the raise that it waited for failed.
func (q *queue) fail(err error) {
	q.mu.Lock()
	q.failure = err
	q.mu.Unlock()
	q.wake()
}

// failed returns what fail was told.
func (q *queue) failed() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failure
}

// pass notes that a higher token is on disk.
func (t *Ticket) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.passed {
		return
	}
	t.passed = true
	if t.overtook != nil {
		close(t.overtook)
	}
}

// Stale returns the error of a write in flight that a higher token on disk
// has overtaken, and nil where none has. It is to be asked before Settle.
func (t *Ticket) Stale() *StaleError {
	t.lock()
	defer t.unlock()
	for i := range t.claims {
		if c := &t.claims[i]; !c.Unordered && c.entry != nil && c.entry.durable.above(c.Token) {
			return &StaleError{Key: c.Key, Token: c.Token, Highest: c.entry.durable.token, Overtaken: true}
		}
	}
	return nil
}
