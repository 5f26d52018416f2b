package tokenstore

import (
	"context"
	"fmt"
)

// Listed is one key of a list, with its record or with why that cannot be read.
type Listed struct {
	Key     Key
	Record  Record
	Damaged *DamagedError // nil for a record that is sound
}

// MaxPage is how many keys one page has at most.
const MaxPage = 1000

// Lister is a Store that tells which keys have a record. It need not be one.
type Lister interface {
	// List returns the keys that begin with prefix and come behind after, in the
	// order of their bytes, with their records: at most limit of them, and at most
	// MaxPage, which 0 stands for. Where there may be more, next is the after of
	// the next page, else it is empty; a page may be shorter than limit, or empty,
	// and not be the last.
	//
	// Each record is read at one moment after the call began. A key that has a
	// record while all pages are read is on one of them; one that is made or
	// forgotten meanwhile may be missing. It MUST NOT hold raises back.
	List(ctx context.Context, prefix string, after Key, limit int) (page []Listed, next Key, err error)
}

// Forgetter is a Store that can forget a key. It need not be one.
type Forgetter interface {
	// Forget removes the record of key, durably, where it is still was, in one
	// atomic step; a key without a record is no error. It MUST be refused with an
	// *InUseError, and nothing changed, where the record is another one by now,
	// where any proxy has an entry open on the key, and where the key has a lease
	// in this store. The counter of leases stays as it is (see Leaser).
	//
	// In a store of one proxy (Raised is nil) the caller sees to it that nothing
	// of the key is in flight, unsettled or quarantined until Forget has returned.
	// There it MUST NOT return before the result is known, whatever becomes of
	// ctx: a removal that comes later would take the record away under a write
	// that was admitted on it. An error that wraps ErrUnavailable says that nothing
	// was removed, or else that the store has failed for good.
	//
	// In a shared store that error says that the removal may be made now or
	// later, or never. That does no harm: it is made only in a step that finds the
	// very record that was seen here, and no write's entry beside it.
	Forget(ctx context.Context, key Key, was Record) error
}

// Same reports whether r and o say the same: times are compared as moments.
func (r Record) Same(o Record) bool {
	return r.Highest == o.Highest && r.Holder == o.Holder && r.RaisedAt.Equal(o.RaisedAt)
}

// InUseError refuses to forget a key, or to do with it what needs it to be
// idle.
type InUseError struct {
	Key Key
	Why string // such as "2 writes are in flight"
}

func (e *InUseError) Error() string { return fmt.Sprintf("key %s is in use: %s", e.Key, e.Why) }

// PageSize is the number of keys that a List with limit returns at most.
func PageSize(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}
