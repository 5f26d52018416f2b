package storetest

import (
	"errors"
	"math"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// counterChecks are the promises on the tokens of leases.
var counterChecks = []leaseCheck{
	{"tokens grow over all keys and epochs", testCounterGrows},
	{"a token is above the record of its key", testAboveRecord},
	{"a grant that fails takes no token back", testCounterRefused},
	{"a record near the end is no other key's trouble", testHighRecord},
	{"the last token is granted, and none after it", testLastToken},
	{"a record of a higher epoch has no next token", testHigherEpoch},
	{"the counter is raised and never lowered", testRaiseCounter},
}

// testCounterGrows: no release, no key and no epoch brings an old number back.
// A client that has one of another epoch could else send it as a new one.
func testCounterGrows(t *testing.T, s LeaseStore) {
	last := uint64(0)
	for i, step := range []struct {
		key   tokenstore.Key
		epoch uint64
	}{{"a", 0}, {"b", 0}, {"a", 0}, {"c", 7}, {"b", 0}, {"c", 7}, {"d", 3}, {"a", 0}} {
		l, err := grantLease(s, step.key, nobody, asked("i"), step.epoch)
		if err != nil {
			t.Fatalf("grant %d: %v", i, err)
		}
		if l.Token.Epoch != step.epoch || l.Token.Minor != 0 || l.Token.Major <= last {
			t.Fatalf("grant %d has token %v, in epoch %d after %d", i, l.Token, step.epoch, last)
		}
		last = l.Token.Major
		mustEnd(t, s, step.key, l)
	}
}

func testAboveRecord(t *testing.T, s LeaseStore) {
	top := uint64(1) << 40 // above what a store may begin its counter with
	mustAcquire(t, s, mark("k", top), tokenstore.Mark{Key: "minor", Token: tokenstore.Token{Major: 2 * top, Minor: 5}})
	l := mustGrant(t, s, "k", nobody, "a")
	if l.Token != token(top+1) {
		t.Fatalf("token %v over a record of %d", l.Token, top)
	}
	// The counter follows, or the same token could be granted again.
	mustEnd(t, s, "k", l)
	if next := mustGrant(t, s, "k", nobody, "b"); !l.Token.Less(next.Token) {
		t.Fatalf("token %v after %v", next.Token, l.Token)
	}
	if other := mustGrant(t, s, "other", nobody, "c"); other.Token.Major <= l.Token.Major {
		t.Fatalf("token %v of another key after %v", other.Token, l.Token)
	}
	if got := mustGrant(t, s, "minor", nobody, "d").Token; got.Major <= 2*top {
		t.Fatalf("token %v over a record of %d.5", got, 2*top)
	}
	// A record that grows later counts for the next grant.
	mustAcquire(t, s, mark("other", 5*top))
	if got := mustGrant(t, s, "other", tokenstore.Lease{ID: "c"}, "e").Token; got.Major <= 5*top {
		t.Fatalf("token %v over a record of %d", got, 5*top)
	}
	// A lower epoch does not.
	mustAcquire(t, s, mark("old", 1<<50))
	got, err := grantLease(s, "old", nobody, asked("f"), 1)
	if err != nil || got.Token.Epoch != 1 || got.Token.Major >= 1<<50 {
		t.Fatalf("GrantLease in epoch 1 = %v, %v; the record is of epoch 0", got.Token, err)
	}
	wantHighest(t, s, "k", token(top)) // a grant raises nothing
}

func testCounterRefused(t *testing.T, s LeaseStore) {
	l := mustGrant(t, s, "k", nobody, "a")
	for range 5 {
		_, err := grantLease(s, "k", nobody, asked("b"), 0)
		wantLeaseError(t, err, "k", l)
	}
	if got := mustGrant(t, s, "other", nobody, "b"); !l.Token.Less(got.Token) {
		t.Fatalf("token %v after %v", got.Token, l.Token)
	}
}

func wantUsedUp(t *testing.T, err error, want tokenstore.TokensUsedUpError) {
	t.Helper()
	var used *tokenstore.TokensUsedUpError
	if !errors.As(err, &used) || errors.Is(err, tokenstore.ErrUnavailable) {
		t.Fatalf("error = %v, want a *TokensUsedUpError alone", err)
	}
	if *used != want {
		t.Fatalf("refused with %+v, want %+v", *used, want)
	}
}

// testHighRecord: a record near the end of all tokens, which any client can make,
// is the trouble of its own key.
func testHighRecord(t *testing.T, s LeaseStore) {
	const last, half = math.MaxUint64, 1 << 63
	mustAcquire(t, s, mark("full", last), mark("k", last-1), mark("half", half))
	for key, highest := range map[tokenstore.Key]uint64{"full": last, "k": last - 1, "half": half} {
		_, err := grantLease(s, key, nobody, asked("a"), 0)
		wantUsedUp(t, err, tokenstore.TokensUsedUpError{Key: key, Highest: token(highest)})
		wantLease(t, s, key, nobody)
		if l := mustGrant(t, s, "beside "+key, nobody, "b"); l.Token.Major > 1<<62 {
			t.Fatalf("token %v of another key", l.Token)
		}
		if l, err := grantLease(s, key, nobody, asked("a"), 1); err != nil || l.Token.Epoch != 1 {
			t.Fatalf("GrantLease in the next epoch = %v, %v", l.Token, err)
		}
	}
	mustAcquire(t, s, mark("below", half-1))
	if l := mustGrant(t, s, "below", nobody, "c"); l.Token != token(half) {
		t.Fatalf("token %v over a record of %v", l.Token, token(half-1))
	}
	mustGrant(t, s, "other", nobody, "d")
}

func testLastToken(t *testing.T, s LeaseStore) {
	const last = math.MaxUint64
	counting, ok := s.(tokenstore.Counting)
	if !ok {
		t.Skip("the counter of this store cannot be moved")
	}
	l := mustGrant(t, s, "other", nobody, "b")
	ctx, cancel := within()
	defer cancel()
	if _, err := counting.RaiseGranted(ctx, last-1); err != nil {
		t.Fatal(err)
	}
	if l := mustGrant(t, s, "k", nobody, "c"); l.Token != token(last) {
		t.Fatalf("token %v after a counter of %v", l.Token, token(last-1))
	}
	// The number was granted: it comes back on no key and in no epoch.
	for _, epoch := range []uint64{0, 1} {
		_, err := grantLease(s, "new", nobody, asked("d"), epoch)
		wantUsedUp(t, err, tokenstore.TokensUsedUpError{Key: "new", Epoch: epoch})
	}
	wantLease(t, s, "new", nobody)
	_, err := grantLease(s, "other", nobody, asked("e"), 0) // what stands there comes first
	wantLeaseError(t, err, "other", l)
	if _, err := renewLease(s, "other", l, 5); err != nil {
		t.Fatalf("RenewLease: %v", err)
	}
}

func testHigherEpoch(t *testing.T, s LeaseStore) {
	high := tokenstore.Token{Epoch: 2, Major: 1}
	mustAcquire(t, s, tokenstore.Mark{Key: "k", Token: high})
	_, err := grantLease(s, "k", nobody, asked("a"), 1)
	wantUsedUp(t, err, tokenstore.TokensUsedUpError{Key: "k", Epoch: 1, Highest: high})
	wantLease(t, s, "k", nobody)
	if l, err := grantLease(s, "k", nobody, asked("a"), 2); err != nil || !high.Less(l.Token) {
		t.Fatalf("GrantLease in epoch 2 = %v, %v", l.Token, err)
	}
}

func testRaiseCounter(t *testing.T, s LeaseStore) {
	counting, ok := s.(tokenstore.Counting)
	if !ok {
		t.Skip("the counter of this store cannot be moved")
	}
	const high = 1 << 40
	for _, step := range []struct{ to, want uint64 }{{high, high}, {high - 1, high}, {0, high}, {high + 7, high + 7}} {
		ctx, cancel := within()
		now, err := counting.RaiseGranted(ctx, step.to)
		cancel()
		if err != nil || now != step.want {
			t.Fatalf("RaiseGranted(%d) = %d, %v, want %d", step.to, now, err, step.want)
		}
	}
	if l := mustGrant(t, s, "k", nobody, "a"); l.Token.Major <= high+7 {
		t.Fatalf("token %v below a counter of %d", l.Token, uint64(high+7))
	}
}
