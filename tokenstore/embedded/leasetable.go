package embedded

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var (
	// leasesBucket has one sealed lease a key that somebody holds and, as its
	// sequence, their number. Stores that were made before leases have none.
	leasesBucket = []byte("leases")
	// grantedKey has, in aboutBucket, the Major of the last token granted, as far as
	// the logs are folded.
	grantedKey = []byte("granted token")
)

// leaseTable holds all leases and the counter, as they are on the disk. There
// are as many as workers that hold one, and not as many as keys.
type leaseTable struct {
	mu      sync.RWMutex // guards what follows, which the committer alone changes, but for granted
	held    map[tokenstore.Key]tokenstore.Lease
	damaged map[tokenstore.Key]*tokenstore.DamagedError
	broken  error // why none can be told of; else nil
	granted uint64
	changed map[tokenstore.Key]struct{} // in the log in use
}

// leaseState is what one fold brings to the file of leases: those that were
// changed, not held where they were ended, and the counter.
type leaseState struct {
	changed map[tokenstore.Key]tokenstore.Lease
	granted uint64
}

func (t *leaseTable) load(key tokenstore.Key) (tokenstore.Lease, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if err := t.damaged[key]; err != nil {
		return tokenstore.Lease{}, err
	}
	if t.broken != nil {
		return tokenstore.Lease{}, tokenstore.Unavailable(t.broken)
	}
	return t.held[key], nil
}

func (t *leaseTable) all() (map[tokenstore.Key]tokenstore.Lease, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.broken != nil {
		return nil, tokenstore.Unavailable(t.broken)
	}
	return maps.Clone(t.held), nil
}

// changes is for the committer, which alone changes them.
func (t *leaseTable) changes() int { return len(t.changed) }

func (t *leaseTable) counter() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.granted
}

// raise takes in that the counter in the file is at least granted.
func (t *leaseTable) raise(granted uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.granted = max(t.granted, granted)
	return t.granted
}

// put takes in what a batch has changed, when it is on the disk.
func (t *leaseTable) put(changes []leaseChange, granted uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.granted = max(t.granted, granted) // it may have been raised since the batch began
	for _, c := range changes {
		t.set(c.key, c.lease)
		if t.changed == nil {
			t.changed = map[tokenstore.Key]struct{}{}
		}
		t.changed[c.key] = struct{}{}
	}
}

func (t *leaseTable) set(key tokenstore.Key, l tokenstore.Lease) {
	delete(t.damaged, key)
	if !l.Held() {
		delete(t.held, key)
		return
	}
	t.held[key] = l
}

// freeze returns what the log in use has changed, and begins the next one.
func (t *leaseTable) freeze() leaseState {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := leaseState{make(map[tokenstore.Key]tokenstore.Lease, len(t.changed)), t.granted}
	for key := range t.changed {
		state.changed[key] = t.held[key]
	}
	t.changed = nil
	return state
}

// begin fills the table at a start: from the file, and then from the logs,
// which are newer. Records do not suffer from what is wrong here.
func (t *leaseTable) begin(tx *bolt.Tx, logs leaseState) error {
	granted, err := readGranted(tx.Bucket(aboutBucket))
	if err != nil {
		return err
	}
	t.granted = max(granted, logs.granted)
	t.held, t.damaged = map[tokenstore.Key]tokenstore.Lease{}, map[tokenstore.Key]*tokenstore.DamagedError{}
	err = guard(func() error {
		return eachLease(tx, func(key tokenstore.Key, l tokenstore.Lease, damage *tokenstore.DamagedError) error {
			if damage != nil {
				t.damaged[key] = damage
			} else {
				t.held[key] = l
			}
			return nil
		})
	})
	if err != nil {
		t.broken = fmt.Errorf("the leases cannot be read, and none is granted (run `fenceproxy store verify`): %w", err)
	}
	for key, l := range logs.changed {
		t.set(key, l)
	}
	return nil
}

// eachLease calls visit for each lease in the file, in the order of the keys.
func eachLease(tx *bolt.Tx, visit func(key tokenstore.Key, l tokenstore.Lease, damage *tokenstore.DamagedError) error) error {
	b := tx.Bucket(leasesBucket)
	if b == nil {
		return nil
	}
	return b.ForEach(func(k, raw []byte) error {
		l, err := decodeLease(k, raw)
		var damage *tokenstore.DamagedError
		if err != nil {
			damage = damagedLease(k, err)
		}
		return visit(tokenstore.Key(k), l, damage)
	})
}

// readGranted returns the counter in the file, 0 where no lease was ever
// granted.
func readGranted(about *bolt.Bucket) (uint64, error) {
	b, err := getSealed(about, grantedKey)
	if err != nil || b != nil && len(b) != 8 {
		return 0, cmp.Or(err, fmt.Errorf("the entry %q has %d bytes: %w", grantedKey, len(b), errSeal))
	}
	if b == nil {
		return 0, nil
	}
	return binary.BigEndian.Uint64(b), nil
}

// raiseGranted brings the counter in the file up to granted.
func raiseGranted(about *bolt.Bucket, granted uint64) error {
	before, err := readGranted(about)
	if err != nil || granted <= before {
		return err
	}
	return putSealed(about, grantedKey, binary.BigEndian.AppendUint64(nil, granted))
}

// foldLeases brings leases into the file, sorted and in parts like records.
// Each part counts what it changes, so that a crash in between does no harm.
func (s *Store) foldLeases(changed map[tokenstore.Key]tokenstore.Lease) error {
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(changed)), s.tuning.foldChunk) {
		err := s.change(func(tx *bolt.Tx) error {
			b := tx.Bucket(leasesBucket)
			number := b.Sequence()
			for _, key := range chunk {
				was, l := b.Get([]byte(key)) != nil, changed[key]
				var err error
				switch {
				case l.Held():
					err = b.Put([]byte(key), encodeLease([]byte(key), l))
					if !was {
						number++
					}
				case was:
					err = b.Delete([]byte(key))
					number--
				}
				if err != nil {
					return err
				}
			}
			return b.SetSequence(number)
		})
		if err != nil {
			return err
		}
		s.reached("part of the leases folded")
	}
	return nil
}
