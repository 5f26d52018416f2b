package session

import (
	"context"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// LeaseBackend is what a Backend keeps of leases: one a key, and one counter
// for all, both for as long as the store. It knows no session: a lease is
// whoever's has its ID, and what has run out is for the proxies to say.
type LeaseBackend interface {
	// LeaseState returns what there is of the lease of key, at one moment after
	// the call began. A damaged lease is a *tokenstore.DamagedError.
	LeaseState(ctx context.Context, key tokenstore.Key) (LeaseState, error)

	// SwapLease makes one change in ONE durable transaction where all that the
	// swap believes holds in it: done is true then. Otherwise nothing is
	// changed, and now is what there is instead, at the moment of that decision
	// or later. What is damaged is a *tokenstore.DamagedError.
	//
	// The other proxies should hear of it by their Watch, see LeaseSink.
	SwapLease(ctx context.Context, s LeaseSwap) (done bool, now LeaseState, err error)

	// Leases returns all held leases, read after the call began, in any order,
	// and those that cannot be read. It MUST NOT miss one that was there when
	// the call began and still is when it returns.
	Leases(ctx context.Context) (held []tokenstore.KeyLease, damaged []*tokenstore.DamagedError, err error)

	// RaiseGranted makes the counter at least granted, durably, and returns it.
	RaiseGranted(ctx context.Context, granted uint64) (now uint64, err error)
}

// LeaseState is what a store has of the lease of one key.
type LeaseState struct {
	Lease   tokenstore.Lease // zero for nobody
	Granted uint64           // the counter: the Major of the last token granted
	// Floor is what every token shall be above beside the counter: a number that
	// grows with the store by itself, and is above the counter where the store
	// was restored from a backup; 0 for an engine that has none.
	Floor uint64

	// The record of key. Damaged says why it cannot be read, else nil.
	Record  tokenstore.Record
	Exists  bool
	Damaged *tokenstore.DamagedError
}

// LeaseSwap is one change of the lease of Key.
type LeaseSwap struct {
	Key tokenstore.Key
	// Was is what stands there, with all its fields; zero for nobody.
	Was tokenstore.Lease
	// Next is what shall stand there; zero for nobody, where Was is somebody's.
	Next tokenstore.Lease
	// Grant says that Next has a new token. Then the counter is Granted, the
	// record of Key is below Next.Token or there is none, and the counter
	// becomes Next.Token.Major, which is above it. Otherwise neither is looked
	// at.
	Grant   bool
	Granted uint64
}

// LeaseSink is a Sink that hears of leases too.
type LeaseSink interface {
	// Leased tells that the lease of key was granted or ended. It does not
	// block. It need not be true.
	Leased(key tokenstore.Key)
}

// ListenSink is a Sink that is told where a Watch begins that does not go on
// where the last one stopped.
type ListenSink interface {
	// Listening tells that what happens from here on is heard. What has happened
	// before may be what somebody waits to hear.
	Listening()
}

// TellListening tells sink so, where it is a ListenSink.
func TellListening(sink Sink) {
	if s, ok := sink.(ListenSink); ok {
		s.Listening()
	}
}

// TellLeased tells sink of the lease of key, where it hears of leases.
func TellLeased(sink Sink, key tokenstore.Key) {
	if s, ok := sink.(LeaseSink); ok {
		s.Leased(key)
	}
}
