package session

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// shards is how many locks the keys share.
const shards = 64

// table finds the holds of a key. Its locks are the keys' locks; every other
// lock of the package is taken after them.
type table struct {
	seed  maphash.Seed
	shard [shards]shard
}

// shard has a part of the keys.
type shard struct {
	n     int // its number: locks are taken in this order
	mu    sync.Mutex
	slots map[tokenstore.Key]*slot // those with a hold
	held  int                      // holds in slots
	// The holds that nobody uses, the one unused for longest first: a list.
	oldest, newest *hold
	idle           int
}

// slot is one key that this proxy has holds on.
type slot struct {
	holds *hold // a list; few: one that is live, and older ones that are not over
	// seen is the highest token that is known to be on record. A hold with a
	// lower one admits nothing any more (R4).
	seen    tokenstore.Token
	hasSeen bool
}

func (t *table) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.shard {
		t.shard[i].n = i
		t.shard[i].slots = map[tokenstore.Key]*slot{}
	}
}

func (t *table) of(key tokenstore.Key) *shard {
	return &t.shard[maphash.String(t.seed, string(key))%shards]
}

// lock takes the locks of all marks' keys, in ascending order, and returns
// what gives them back.
func (t *table) lock(marks []tokenstore.Mark) (unlock func()) {
	all := make([]*shard, len(marks))
	for i := range marks {
		all[i] = t.of(marks[i].Key)
	}
	slices.SortFunc(all, func(a, b *shard) int { return cmp.Compare(a.n, b.n) })
	all = slices.Compact(all)
	for _, sh := range all {
		sh.mu.Lock()
	}
	return func() {
		for _, sh := range all {
			sh.mu.Unlock()
		}
	}
}

// passed reports whether a token above t is known to be on record.
func (sl *slot) passed(t tokenstore.Token) bool { return sl.hasSeen && t.Less(sl.seen) }

// raise notes that t is on record, and reports whether that is news.
func (sl *slot) raise(t tokenstore.Token) bool {
	if sl.hasSeen && !sl.seen.Less(t) {
		return false
	}
	sl.seen, sl.hasSeen = t, true
	return true
}

// noteEarly notes that something was heard of the key. The owner of an older
// entry can hear of a raise and remove that entry before the answer that names
// it is here: the hold that will wait for it then looks at once, instead of at
// the next poll. The lock is held.
func (sl *slot) noteEarly() {
	for h := sl.holds; h != nil; h = h.next {
		h.early = h.early || h.phase == acquiring
	}
}

// find returns the hold of an entry, nil where there is none.
func (sl *slot) find(e id) *hold {
	for h := sl.holds; h != nil; h = h.next {
		if h.entry.id() == e {
			return h
		}
	}
	return nil
}

// has reports whether e is the entry of a hold. The lock is not held.
func (t *table) has(e *Entry) bool {
	sh := t.of(e.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sl := sh.slots[e.Key]
	return sl != nil && sl.find(e.id()) != nil
}

// add puts a new hold on its key. The lock is held.
func (sh *shard) add(h *hold) {
	sl := sh.slots[h.entry.Key]
	if sl == nil {
		sl = new(slot)
		sh.slots[h.entry.Key] = sl
	}
	h.slot, h.next = sl, sl.holds
	sl.holds = h
	sh.held++
}

// remove takes a hold off its key; a key without holds is forgotten. The second
// call does nothing. The lock is held.
func (sh *shard) remove(h *hold) {
	for at := &h.slot.holds; *at != nil; at = &(*at).next {
		if *at == h {
			*at, h.next = h.next, nil
			sh.held--
			break
		}
	}
	if h.slot.holds == nil && sh.slots[h.entry.Key] == h.slot {
		delete(sh.slots, h.entry.Key)
	}
}

// rest puts a hold that nobody uses behind all others that nobody uses.
func (sh *shard) rest(h *hold, now time.Duration) {
	h.resting, h.since = true, now
	h.prevIdle, h.nextIdle = sh.newest, nil
	if sh.newest != nil {
		sh.newest.nextIdle = h
	} else {
		sh.oldest = h
	}
	sh.newest = h
	sh.idle++
}

// wakeUp takes it out again, if it is there.
func (sh *shard) wakeUp(h *hold) {
	if !h.resting {
		return
	}
	h.resting = false
	if h.prevIdle != nil {
		h.prevIdle.nextIdle = h.nextIdle
	} else {
		sh.oldest = h.nextIdle
	}
	if h.nextIdle != nil {
		h.nextIdle.prevIdle = h.prevIdle
	} else {
		sh.newest = h.prevIdle
	}
	h.prevIdle, h.nextIdle = nil, nil
	sh.idle--
}
