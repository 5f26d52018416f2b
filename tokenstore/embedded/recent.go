package embedded

import (
	"maps"
	"slices"
	"sync"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// raised is a record that is on the disk in a log.
type raised struct {
	rec   tokenstore.Record
	added bool // the key has no record in what is older than this map
	gone  bool // the key was forgotten: it has no record any more
}

// recent holds the records that are in a log and not yet in the file. What is
// in it is on the disk.
type recent struct {
	mu sync.RWMutex // guards what follows, and the content of current

	// current holds the records of the log to which the committer appends.
	// The committer alone changes it, and so may read it without the lock.
	current map[tokenstore.Key]raised
	// order has the keys of current as they came. It is only ever appended to,
	// so that a list can go through what it has seen of it without the lock.
	order []tokenstore.Key
	// frozen are those that are being folded into the file; nil where no fold
	// is due. They are older than current.
	frozen *frozen
}

// frozen are records that do not change any more.
type frozen struct {
	records map[tokenstore.Key]raised
	sorted  func() []tokenstore.Key // the keys, sorted when they are first asked for
	leases  leaseState
	last    uint64 // the last generation whose log they come from
	bytes   int64  // length of these logs

	// Guarded by recent.mu:
	failed error         // why the last try to fold them failed; nil before
	tried  chan struct{} // closed by the next try that ends, however it does
}

func newFrozen(records map[tokenstore.Key]raised, leases leaseState, last uint64, bytes int64) *frozen {
	sorted := sync.OnceValue(func() []tokenstore.Key { return slices.Sorted(maps.Keys(records)) })
	return &frozen{records: records, leases: leases, sorted: sorted, last: last, bytes: bytes, tried: make(chan struct{})}
}

// len returns the number of records and leases.
func (f *frozen) len() int {
	if f == nil {
		return 0
	}
	return len(f.records) + len(f.leases.changed)
}

// load returns the newest that is known of a key.
func (r *recent) load(key tokenstore.Key) (raised, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return lookup(r.current, r.frozen, key)
}

// maps returns both maps, for the committer.
func (r *recent) maps() (current map[tokenstore.Key]raised, f *frozen) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.current, r.frozen
}

func lookup(current map[tokenstore.Key]raised, f *frozen, key tokenstore.Key) (raised, bool) {
	if e, ok := current[key]; ok {
		return e, true
	}
	if f == nil {
		return raised{}, false
	}
	e, ok := f.records[key]
	return e, ok
}

// put takes in what a batch has changed, when it is on the disk.
func (r *recent) put(changed []*slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		r.current = map[tokenstore.Key]raised{}
	}
	for _, s := range changed {
		e := raised{rec: s.rec, added: s.added, gone: !s.ok}
		if before, here := r.current[s.key]; here {
			e.added = before.added
		} else {
			r.order = append(r.order, s.key)
		}
		r.current[s.key] = e
	}
}

// freeze makes current the frozen records, up to the log of generation last,
// with the leases that it has changed. There are none yet.
func (r *recent) freeze(leases leaseState, last uint64, bytes int64) *frozen {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = newFrozen(r.current, leases, last, bytes)
	r.current, r.order = nil, nil
	return r.frozen
}

// tried tells the outcome of one try to fold the frozen records. Where it went
// well they are dropped: from now on only the file has them.
func (r *recent) tried(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.frozen.tried)
	if err == nil {
		r.frozen = nil
		return
	}
	r.frozen.failed, r.frozen.tried = err, make(chan struct{})
}

// trial returns what is known of the fold: it is due or under way where tried
// is not nil, and failed says why the last try failed.
func (r *recent) trial() (tried <-chan struct{}, failed error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.frozen == nil {
		return nil, nil
	}
	return r.frozen.tried, r.frozen.failed
}

// all returns everything that is not in the file yet, given the leases that
// the log in use has changed. Nothing else is under way when it is called.
func (r *recent) all(leases leaseState) (map[tokenstore.Key]raised, leaseState) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[tokenstore.Key]raised{}
	if r.frozen != nil {
		for key, l := range r.frozen.leases.changed {
			if _, newer := leases.changed[key]; !newer {
				leases.changed[key] = l
			}
		}
	}
	if r.frozen != nil {
		for key, e := range r.frozen.records {
			all[key] = e
		}
	}
	for key, e := range r.current {
		if older, here := all[key]; here {
			e.added = older.added
		}
		all[key] = e
	}
	return all, leases
}
