package gate

import (
	"hash/maphash"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// shards is how many locks the keys share. Different keys never wait for each
// other's writes, only for a lock that is held for nanoseconds.
const shards = 64

// table finds the entry of a key. Its locks are the keys' locks.
type table struct {
	seed  maphash.Seed
	shard [shards]shard
}

// shard holds a part of the keys.
type shard struct {
	mu sync.Mutex // guards everything below and every field of the entries

	n         int   // its number: locks are taken in this order; never changes
	open      int64 // tickets in flight or unsettled whose first claim is here
	unsettled int64 // those of them that are unsettled

	// active has every key that somebody holds a reference to: writes being
	// decided, waiting, in flight or unsettled. It is never evicted (rule 10).
	active map[tokenstore.Key]*entry
	// idle has copies of the durable marks of other keys, as many as fit. A
	// key is looked up in active first: while it is there, its copy in idle
	// may be behind.
	idle *simplelru.LRU[tokenstore.Key, mark]

	// vouched are the keys whose quarantine an operator has ended (Gate.Settle).
	vouched map[tokenstore.Key]bool

	// resting are the entries that were given back last, a ring. They stay in
	// active although nobody holds them, since most will be asked for again:
	// moving each to idle and back costs more than the whole decision.
	resting [restingKeys]*entry
	turn    int
	free    *entry // entries to use again
}

// restingKeys is how many entries of a shard rest before they become idle.
const restingKeys = 128

// entry is one active key.
type entry struct {
	state
	key   tokenstore.Key
	refs  int    // claims that point here; taken and given back under the lock
	rests bool   // stands in shard.resting
	dirty bool   // idle has no copy, or an older one
	era   uint64 // counts how often the key was forgotten; taken with each look into the store
	doubt bool   // a raise with clear may still reach the disk, or not: see entry.retires
	next  *entry // in shard.free

	coming coming

	registered *claim   // in flight and unsettled, a list
	waiters    []*claim // whose tickets wait
	lookers    int      // of the waiters: those that are only looked on
	placeless  int      // tickets that wait and have no token here, so that they have no place
	seq        uint64   // the number of the last unordered write that registered
	hurries    uint64   // counts the calls of hurry

	// kept is the place of a write whose drain ran out, for the next attempt with
	// its token: each would else wait for what came behind the first.
	kept    *place
	keptFor tokenstore.Token
}

// waiting is how many wait, for whatever it is.
func (e *entry) waiting() int { return len(e.waiters) + e.placeless }

// placeOf is the place of a write with token t that comes now.
func (e *entry) placeOf(t tokenstore.Token) place {
	if e.kept != nil && e.keptFor == t {
		return *e.kept
	}
	return place{e.seq, e.unordered}
}

func newTable(marks int) (*table, error) {
	t := &table{seed: maphash.MakeSeed()}
	for i := range t.shard {
		s := &t.shard[i]
		s.n = i
		s.active = map[tokenstore.Key]*entry{}
		lru, err := simplelru.NewLRU[tokenstore.Key, mark](max(1, marks/shards), nil)
		if err != nil {
			return nil, err
		}
		s.idle = lru
	}
	return t, nil
}

// of returns the shard that has key.
func (t *table) of(key tokenstore.Key) *shard {
	return &t.shard[maphash.String(t.seed, string(key))%shards]
}

// open tells whether anything is in flight or unsettled.
func (t *table) open() bool {
	for i := range t.shard {
		s := &t.shard[i]
		s.mu.Lock()
		open := s.open
		s.mu.Unlock()
		if open > 0 {
			return true
		}
	}
	return false
}

// hold returns the entry of key with one reference more. The reference is
// taken under the same lock as every count, and before the store is read, so
// that whoever raises meanwhile raises this very entry (H).
func (s *shard) hold(key tokenstore.Key) *entry {
	e := s.active[key]
	if e == nil {
		if e = s.free; e != nil {
			s.free, e.next = e.next, nil
		} else {
			e = new(entry)
		}
		e.key, e.dirty = key, true
		if m, ok := s.idle.Get(key); ok {
			e.loaded, e.durable, e.dirty = true, m, false
			if m.exists {
				e.high, e.hasHigh = m.token, true
			}
		}
		s.active[key] = e
	}
	e.refs++
	return e
}

// drop gives one reference back. An entry that nobody holds rests.
func (s *shard) drop(e *entry) {
	if e.refs--; e.refs > 0 || e.rests {
		return
	}
	out := s.resting[s.turn]
	s.resting[s.turn], e.rests = e, true
	s.turn = (s.turn + 1) % restingKeys
	if out != nil {
		if out.rests = false; out.retires() {
			s.retire(out)
		} // else it rests again when it is given back
	}
}

// retires reports whether the entry may be forgotten. One in doubt may not: a
// raise whose result is unknown may reach the disk later, and with it the word
// that every lower write was over by then. Forgotten, a lower one would be
// admitted meanwhile, and a crash would find a record that says clear of it (Q).
func (e *entry) retires() bool { return e.refs == 0 && !e.doubt }

// maxDoubtful bounds the memory that entries in doubt take while the store
// does not answer. Beyond it raises do not say clear, and leave no doubt.
const maxDoubtful = 4096

// retire forgets an entry. What is durable of it stays as a copy, the rest (a
// raise that failed) goes as it would in a crash: nothing was sent on it.
func (s *shard) retire(e *entry) {
	delete(s.active, e.key)
	if m, ok := e.copy(); !ok {
		s.idle.Remove(e.key)
	} else if e.dirty {
		s.idle.Add(e.key, m)
	}
	*e = entry{next: s.free}
	s.free = e
}

// wake makes every waiter of the key look again.
func (e *entry) wake() {
	for _, c := range e.waiters {
		c.ticket.queue.wake()
	}
}

// add counts a claim in and puts it into the list.
func (e *entry) add(c *claim) {
	if c.Unordered {
		e.seq++
		c.seq = e.seq
		e.unordered++
		if c.hurries != e.hurries {
			c.ticket.pass()
		}
	} else {
		e.register()
		e.kept = nil
	}
	e.link(c)
}

// remove takes it out again, and reports whether somebody may have waited for
// that.
func (e *entry) remove(c *claim) (last bool) {
	e.unlink(c)
	if !c.Unordered {
		return e.unregister(c.Token)
	}
	e.unordered--
	if e.kept != nil && c.seq <= e.kept.last {
		e.kept.before--
	}
	for _, w := range e.waiters {
		if w.waitsFor(c) {
			w.before--
			last = last || w.before == 0
		}
	}
	return last
}

func (e *entry) link(c *claim) {
	c.prev, c.next = nil, e.registered
	if c.next != nil {
		c.next.prev = c
	}
	e.registered = c
}

func (e *entry) unlink(c *claim) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		e.registered = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}
