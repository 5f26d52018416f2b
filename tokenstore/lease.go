package tokenstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Lease is who holds a resource key, and with what token. The zero Lease says
// that nobody does.
type Lease struct {
	// ID is random and of this grant alone: who knows it may renew and release.
	ID string
	// Holder is who asked for it, for people; at most MaxHolder bytes.
	Holder string
	// Token is the fencing token of the grant: higher than that of every lease
	// ever granted in this store, and than the highest on record of the key.
	Token Token
	// TTL is how long the lease lives from its grant or last renewal. Above 0.
	TTL time.Duration
	// Beat counts the renewals that the store was told of. A lease that has
	// kept its ID and its Beat for TTL, by the clock of whoever watched it, has
	// run out.
	Beat uint64
	// GrantedAt is when it was granted, by the wall clock, for people.
	GrantedAt time.Time
}

// KeyLease is the lease of a key, as it is listed or moved.
type KeyLease struct {
	Key Key
	Lease
}

// Held reports whether the lease is somebody's.
func (l Lease) Held() bool { return l.ID != "" }

// Same reports whether l and o are one grant, renewed equally often.
func (l Lease) Same(o Lease) bool { return l.ID == o.ID && l.Beat == o.Beat }

const (
	// MaxHolder is the length of the longest holder, in bytes.
	MaxHolder = 256
	// MaxLeaseID is the length of the longest ID of a lease, in bytes.
	MaxLeaseID = 64
)

// Leaser is a Store that keeps leases beside the records. It need not be one.
// It measures no time: a lease stays until it is replaced or ended, and what
// has run out is for its users to say. All methods MUST be safe for concurrent
// use and linearizable, return soon after ctx ends, and fail with errors that
// wrap ErrUnavailable where nothing else is said; the result is then unknown:
// the change may be made, now or later, once or never.
type Leaser interface {
	// Lease returns the lease of key, zero where nobody holds it. A damaged one
	// is a *DamagedError.
	Lease(ctx context.Context, key Key) (Lease, error)

	// GrantLease puts next in the place of was, in one atomic step, and returns
	// it with its token, which NextToken makes of the store's counter and of the
	// record of key: the counter is the Major of the last token that this store
	// granted, on any key and in any epoch. It never goes down: not by a release,
	// by forgetting the key, by a crash or by an import. When GrantLease returns,
	// the lease and the counter are durable. It raises nothing: that is the
	// gate's.
	//
	// was is what the caller believes to stand there, zero for nobody. Where
	// something else does (see Lease.Same), or nobody while was is held, nothing
	// is changed, and the error is a *LeaseError. A token that does not exist is
	// a *TokensUsedUpError. A record or a lease that is damaged is a
	// *DamagedError, here and in what follows.
	GrantLease(ctx context.Context, key Key, was, next Lease, epoch uint64) (Lease, error)

	// RenewLease gives the lease of key a new TTL and counts one Beat, durably,
	// and returns it; a *LeaseError where was is not what stands there. Stores
	// of one proxy need it only where TTL changes.
	RenewLease(ctx context.Context, key Key, was Lease, ttl time.Duration) (Lease, error)

	// EndLease takes the lease of key away, durably, where was is what stands
	// there, else it is a *LeaseError. Ending nobody's does nothing.
	EndLease(ctx context.Context, key Key, was Lease) error

	// Leases calls each for every held lease, once and in any order, until it
	// returns false. A lease that is granted or ended meanwhile may be left out
	// or told, and a damaged one is left out; each may use the store.
	Leases(ctx context.Context, each func(Key, Lease) bool) error

	// LeaseChanges tells of keys whose lease another proxy may have changed: a
	// hint, which may come late, twice or never. The zero Key says that it may be
	// any: hints were missed. It is closed with the store,
	// and nil for a store of one proxy, where nobody else changes anything.
	LeaseChanges() <-chan Key
}

// Counting is a Leaser whose counter can be moved to another store and back. It
// need not be one.
type Counting interface {
	// RaiseGranted makes the counter of GrantLease at least granted, durably, and
	// returns it; 0 only asks. A grant that begins when it has returned is above
	// both. After an error, which wraps ErrUnavailable, it may be raised or not.
	RaiseGranted(ctx context.Context, granted uint64) (now uint64, err error)
}

// LeaseError says that the lease of a key is not what the caller believed.
type LeaseError struct {
	Key     Key
	Current Lease // what stands there; zero for nobody
}

func (e *LeaseError) Error() string {
	if !e.Current.Held() {
		return fmt.Sprintf("key %s: nobody holds the lease", e.Key)
	}
	return fmt.Sprintf("key %s: the lease is held by %q with token %s", e.Key, e.Current.Holder, e.Current.Token)
}

// TokensUsedUpError says that no higher token is granted in an epoch: its last
// one was granted, or one near the end (2^63 or above) is on record, or the
// record has a higher epoch.
type TokensUsedUpError struct {
	Key     Key
	Epoch   uint64
	Highest Token // on record
}

func (e *TokensUsedUpError) Error() string {
	switch {
	case e.Highest.Epoch == e.Epoch && e.Highest.Major >= maxStep:
		return fmt.Sprintf("key %s has token %d on record, and a lease above it would leave too few for all other keys; raise the rule's epoch, or forget the key where that token was a mistake", e.Key, e.Highest.Major)
	case e.Highest.Epoch > e.Epoch:
		return fmt.Sprintf("key %s has a token of epoch %d on record, higher than any of epoch %d", e.Key, e.Highest.Epoch, e.Epoch)
	}
	return fmt.Sprintf("key %s: this store has granted token %d, and no higher one exists; begin a new store, with a higher epoch for every rule", e.Key, uint64(math.MaxUint64))
}

// maxStep bounds the records that take the counter along. Any client may write
// with any token: without the bound a single one near the end, and then a lease
// of its key, would use up the tokens of every key, for good.
const maxStep = 1 << 63

// NextToken makes the token of a new lease: one above the store's counter and
// above the record of the key, in epoch. counter is the Major of the last
// token granted; exists says that there is a record. Every store decides like
// this, in the step that also writes the result. Its error is a
// *TokensUsedUpError.
func NextToken(key Key, counter uint64, rec Record, exists bool, epoch uint64) (Token, error) {
	last := counter
	if exists {
		switch {
		case rec.Highest.Epoch > epoch:
			return Token{}, &TokensUsedUpError{Key: key, Epoch: epoch, Highest: rec.Highest}
		case rec.Highest.Epoch == epoch && rec.Highest.Major > counter && rec.Highest.Major >= maxStep:
			return Token{}, &TokensUsedUpError{Key: key, Epoch: epoch, Highest: rec.Highest}
		case rec.Highest.Epoch == epoch:
			last = max(last, rec.Highest.Major)
		}
	}
	if last == math.MaxUint64 {
		return Token{}, &TokensUsedUpError{Key: key, Epoch: epoch, Highest: rec.Highest}
	}
	return Token{Epoch: epoch, Major: last + 1}, nil
}

// CheckLease refuses what no store can keep. The error wraps ErrUnavailable:
// callers fail closed on it.
func CheckLease(key Key, next Lease) error {
	switch {
	case len(key) == 0 || len(key) > MaxKey:
		return Unavailable(fmt.Errorf("a key of %d bytes (1 to %d are allowed)", len(key), MaxKey))
	case len(next.ID) == 0 || len(next.ID) > MaxLeaseID:
		return Unavailable(fmt.Errorf("a lease's ID of %d bytes (1 to %d are allowed)", len(next.ID), MaxLeaseID))
	case len(next.Holder) > MaxHolder:
		return Unavailable(fmt.Errorf("a holder of %d bytes (at most %d are allowed)", len(next.Holder), MaxHolder))
	case next.TTL <= 0:
		return Unavailable(errors.New("a lease without a time to live"))
	}
	return nil
}
