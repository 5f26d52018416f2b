// Package tokenstore says what a store of fencing tokens promises: the
// highest token of every resource key, durable and never lower than it was.
//
// A store keeps one Record per Key. Package storetest holds these promises as
// a suite that every store runs; memory and embedded are stores of one proxy,
// and the interface leaves room for stores that several proxies share.
//
// The package is stable API and uses nothing but the standard library. All
// methods of a Store and of a Grant MUST be safe for concurrent use.
package tokenstore

import (
	"context"
	"time"
)

// Key names one resource: 1 to MaxKey bytes, made from a rule's template.
type Key string

// MaxKey is the length of the longest key, in bytes.
const MaxKey = 1024

// Mark asks for a token to be recorded on a key.
type Mark struct {
	Key   Key
	Token Token
	// Clear says that every write with a lower token is known to be over
	// (rule 6). It is recorded only together with Token as the highest.
	Clear bool
	// Holder, when not empty, is who holds the token. An equal token of
	// another holder is a collision.
	Holder string
	// Unordered asks for the grant of a write that has no token, or none that
	// counts: it is older than every token, so that nothing is recorded for it,
	// it is never stale, and it waits for nothing. A store
	// of one proxy is never asked.
	Unordered bool
	// Observed says that the write is only looked on: its caller waits for no
	// older ones, and nobody's write is hurried for its sake.
	Observed bool
}

// Record is what a store knows of one key.
type Record struct {
	// Highest is the highest token ever recorded. It never goes down.
	Highest Token
	// Clear says that, when it was written, every write with a token lower
	// than Highest was known to be over: the protocol's clear == highest.
	Clear bool
	// RaisedAt is when Highest was recorded, by the wall clock, for people.
	RaisedAt time.Time
	// Holder of Highest, where one was given.
	Holder string
}

// Store keeps records. It MUST be linearizable: what Acquire has recorded is
// seen by every later Load and Acquire, after a crash too.
type Store interface {
	// Load returns the record of a key; ok is false where there is none. Its
	// errors are a *DamagedError for a record that does not pass its
	// checksum, and else wrap ErrUnavailable.
	Load(ctx context.Context, key Key) (rec Record, ok bool, err error)

	// Acquire records all marks, durably, in one atomic step, or none of them
	// (rules 5 and 6, and R2 for several proxies). A nil error means: on the
	// disk now, and Highest of every mark's key is its Token or was when the
	// step was taken. A key may be named once.
	//
	//   - A key whose record is higher: a *StaleError, nothing is recorded.
	//   - A key whose record is equal: it stays as it is, except that Clear is
	//     added, and Holder where it has none; another Holder is a
	//     *CollisionError, nothing is recorded.
	//   - Anything else, and a ctx that ends first: an error that wraps
	//     ErrUnavailable or a *DamagedError. The result is then unknown: the
	//     marks may be recorded, now or later. Callers MUST NOT send a write
	//     on an unknown result, nor call a token stale because of it.
	//
	// Acquire MUST return soon after ctx ends. The caller releases the grant.
	Acquire(ctx context.Context, marks []Mark) (Grant, error)

	// Clear adds Clear to the record of key if its highest is still token. It
	// may be written later or never (losing it only costs a wait after a
	// crash), needs no sync, and returns at once.
	Clear(key Key, token Token)

	// Recovered reports whether the store's last life may have ended with
	// writes in flight that nobody will tell of: no marker of a clean stop was
	// found (rule 3). Stores that keep open entries of every write, and new
	// stores, return false.
	Recovered() bool

	// Raised tells of raises made at other proxies. A nil channel says that
	// this proxy alone uses the store: then a mark that the caller knows to be
	// durable needs no Acquire, and every grant is Sole.
	//
	// A mark that is Unordered tells, beside that, that another proxy waits with
	// its Token for writes that are unordered or only looked on.
	Raised() <-chan Mark

	// Close ends the use of the store. clean says that nothing is in flight,
	// unsettled or quarantined: only then a marker is written (rule 12).
	Close(clean bool) error
}

// Keeper is a Store that keeps what it was granted, so that the next write with
// the same token needs no I/O. It need not be one.
type Keeper interface {
	// Held returns a grant of mark where Acquire would return one without I/O
	// and its Drained would return nil, both at once; else ok is false, which
	// says nothing. It MUST NOT block. mark.Clear does not count.
	Held(mark Mark) (_ Grant, ok bool)
}

// Counter is a Store that knows how many keys have a record. It need not be one.
type Counter interface {
	// Keys returns their number. It MUST NOT block, and MUST count a record that
	// Acquire has made before that returns.
	Keys() int64
}

// Grant is the leave to send one write, given by Acquire.
type Grant interface {
	// Drained waits until no other proxy has an older write on the grant's
	// keys (R3). It returns a *StaleError once overtaken, and an error that
	// wraps ErrUnavailable when the session is over or ctx ends.
	Drained(ctx context.Context) error

	// MaySend reports whether the grant still holds. It is asked immediately
	// before the write is sent (R5), does no I/O, and counts time in suspend.
	MaySend() bool

	// Lost is closed when the grant no longer holds: a write in flight under
	// it is cut and becomes unsettled. It is nil for a grant that is never
	// lost.
	Lost() <-chan struct{}

	// Release gives the grant back once its write is over (R6). The second
	// call does nothing.
	Release()
}

// Raiser is a Grant that tells what its Acquire found. It need not be one: then
// whoever asked takes it that the marks were raised.
type Raiser interface {
	// Raised reports whether Acquire recorded a higher token than before, or the
	// first one, on any of the keys.
	Raised() bool
}

// Sole is the grant of a store that one proxy has to itself: free and never
// lost.
var Sole Grant = sole{}

type sole struct{}

func (sole) Drained(context.Context) error { return nil }
func (sole) MaySend() bool                 { return true }
func (sole) Lost() <-chan struct{}         { return nil }
func (sole) Release()                      {}
