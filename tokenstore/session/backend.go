package session

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// ID names one session. It is random, and a proxy that registers again has
// another one (R10).
type ID [16]byte

// String is the form in which engines and logs may have it.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Entry says that writes on Key with Token may be in flight or unsettled at
// the proxy of Session. All four fields together are its identity: entries
// that differ in Nonce alone are different ones, and stand side by side. An
// identity is used once, so that what is deleted never comes back (X10).
//
// The highest bit of Nonce makes an entry Unordered. Its Token is the zero
// Token then, and an entry of that very token is not below the lowest one while
// it is: where an engine asks for older entries, it has to look at that bit.
type Entry struct {
	Key     tokenstore.Key
	Token   tokenstore.Token
	Session ID
	Nonce   uint64
}

// Want asks for a mark to be recorded, and for an entry with its key, its
// token and Nonce.
type Want struct {
	tokenstore.Mark
	Nonce uint64
}

// Acquired is what an Acquire has done, beside putting its entries.
type Acquired struct {
	// Older are the entries on the keys with a lower token than the want's, and
	// all Unordered ones.
	Older []Entry
	// Raised says that a record was made, or has a higher token than before.
	Raised bool
}

// State is what a store knows of a key.
type State struct {
	Key    tokenstore.Key
	Record tokenstore.Record
	Exists bool // there is a record
	Open   []Entry
	// Overtaken are the unordered ones among Open that an acquire has found as
	// older ones. An engine whose Watch tells of that by Raised may leave it out.
	Overtaken []Entry
}

// ErrSessionOver is wrapped by the errors of KeepAlive and Acquire for a
// session that is gone. Nothing was recorded.
var ErrSessionOver = errors.New("the session is gone from the store")

// Sink takes what a Backend hears of other proxies, and of this one. Its
// methods do not block. What is told MUST be true; it may be told late, twice
// or never.
type Sink interface {
	// Raised tells that m.Token, or a higher one, is durably on record, and that
	// the acquire of it may have found older entries of this proxy. It is told
	// also where the record was equal.
	Raised(m tokenstore.Mark)
	// Gone tells that an entry was deleted.
	Gone(e Entry)
	// Changed tells that something about a key may have changed: for engines
	// whose notifications cannot say more. It makes the Store Look.
	Changed(key tokenstore.Key)
}

// Backend is a shared store: linearizable, and it never loses what it has
// acknowledged (A5). Package sessiontest holds what is said here as a suite.
//
// All methods MUST be safe for concurrent use and MUST return soon after ctx
// ends. Where nothing else is said, an error means that the result is not
// known: what was asked for may be done, in part, now or at any later time,
// exactly once or never. A Backend MUST NOT repeat a call by itself unless it
// knows that nothing was done; it never turns what it does not know into a
// refusal.
//
// Several calls of one session may be under way at once, but for Begin and
// KeepAlive, which come one after the other.
type Backend interface {
	// Begin registers the session s, which nobody has used before, as alive for
	// ttl (R1). ttl counts from when the engine handles the call or later, on
	// the engine's clock, and is rounded up, never down: a session that is gone
	// before ttl has passed since the call breaks the fence.
	//
	// The registration itself MUST NOT vanish with time: Sessions names s,
	// alive or not, until End.
	Begin(ctx context.Context, s ID, ttl time.Duration) error

	// KeepAlive makes s alive for ttl from now, as Begin does. It MUST fail with
	// ErrSessionOver, and change nothing, once s may have been seen as gone by
	// anybody: gone is final. Where expiry is judged when looked at, whoever
	// finds a session expired has to write that down before telling (a database
	// whose clock steps back would revive it).
	//
	// It is confirmed only with the proof that raises were seen (R7): before it
	// returns nil, every key on which an Acquire has returned an entry of s as an
	// older one, before the call began, MUST have been told to the Sink of Watch
	// after that, or be in overtaken. It may be there again each time, for as
	// long as the entry exists. Where nobody can say (no watch runs, or it is
	// behind), KeepAlive waits, and returns an error when ctx ends.
	//
	// It should be one round trip, with any number of entries.
	KeepAlive(ctx context.Context, s ID, ttl time.Duration) (overtaken []tokenstore.Mark, err error)

	// End removes the registration of s, alive or not. It is called when no
	// entry of s is left, and for a session that was gone already by any number
	// of proxies; an s that is not registered is no error.
	End(ctx context.Context, s ID) error

	// Sessions returns all registered sessions, and whether each is alive.
	Sessions(ctx context.Context) (map[ID]bool, error)

	// Acquire is R2, ONE transaction (X8). Every want is decided as
	// tokenstore.Record.Raise decides, from the record as it is in that
	// transaction:
	//
	//   - all records can be raised, or are equal: all are recorded, an entry
	//     is put for every want, and the older entries are returned, the
	//     Unordered ones among them, of any session, those of s and of dead
	//     sessions too. They MUST be complete: an entry that is committed before
	//     this transaction is among them, and one with a token that comes after it
	//     finds the higher record and is refused.
	//   - one is higher: a *tokenstore.StaleError; one is held by another: a
	//     *tokenstore.CollisionError. Nothing is recorded, no entry is put.
	//   - s is not alive: ErrSessionOver, and nothing is recorded. After s was
	//     seen as gone no entry of it may appear (one that is late included),
	//     so this check belongs into the transaction.
	//   - a record cannot be read: a *tokenstore.DamagedError; nothing is
	//     recorded.
	//
	// For an Unordered want nothing is recorded, nothing is refused but a session
	// that is not alive, and nothing is returned: its entry is put, with those of
	// the others.
	//
	// An entry MUST NOT expire: only Delete removes it (X5). wants are 1 to 16
	// different keys, not sorted; Clear is never set.
	//
	// Those that hold older entries on the keys should hear of it at once, by
	// their Watch, also where the record was equal.
	Acquire(ctx context.Context, s ID, wants []Want) (Acquired, error)

	// Delete removes exactly these entries (R6, R9), at most MaxBatch, of any
	// sessions, in one step or several. One that is not there is no error: after
	// nil, none of them is. It MUST NOT touch an entry with another nonce. Who
	// waits for them should hear of it at once.
	Delete(ctx context.Context, entries []Entry) error

	// Look returns the state of each key, at most MaxBatch, in any order; one
	// that it knows nothing of may be left out. Every State is read at one
	// moment after the call began.
	Look(ctx context.Context, keys []tokenstore.Key) ([]State, error)

	// Entries returns all entries of one session, read after the call began.
	// There may be hundreds of thousands: an engine that needs it reads them in
	// parts, and MUST NOT miss one that was there when the call began and still
	// is when it returns.
	Entries(ctx context.Context, s ID) ([]Entry, error)

	// Load returns the record of one key, as tokenstore.Store.Load does.
	Load(ctx context.Context, key tokenstore.Key) (rec tokenstore.Record, ok bool, err error)

	// List returns a page of the keys that have a record, as
	// tokenstore.Lister.List does; limit is 1 to tokenstore.MaxPage.
	List(ctx context.Context, prefix string, after tokenstore.Key, limit int) (page []tokenstore.Listed, next tokenstore.Key, err error)

	// Forget removes the record of key in ONE transaction, on condition that it
	// is still was (see tokenstore.Record.Same) and that no entry of the key is
	// there, of any session; else a *tokenstore.InUseError, and nothing is
	// changed. Where there is no record it does nothing. An Acquire that is
	// committed before is seen by it, and one that comes after it finds no record.
	Forget(ctx context.Context, key tokenstore.Key, was tokenstore.Record) error

	// Watch tells sink what happens, until ctx ends or it is cut off, which is
	// an error; it is then called again after a while. It runs once at a time.
	// It makes waiting short and nothing else: everything is found without it,
	// by polling and by KeepAlive.
	Watch(ctx context.Context, sink Sink) error

	// Update changes a few hundred bytes that the store keeps for all proxies,
	// in one transaction. change gets what is there, nil at first, and returns
	// what shall be; where that is the same nothing is written. It may be called
	// several times, and MUST NOT be called after Update has returned. Its error is returned as it is, and nothing is written.
	Update(ctx context.Context, change func(old []byte) ([]byte, error)) error

	LeaseBackend

	// Close gives the connections back. No other call is under way.
	Close() error
}

// MaxBatch is how many entries or keys one call of Delete or Look has at most.
const MaxBatch = 256

// id is the identity of an entry of a given key.
type id struct {
	session ID
	nonce   uint64
}

func (e *Entry) id() id { return id{e.Session, e.Nonce} }
