package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// LeaseStore is a store that keeps leases beside its records.
type LeaseStore interface {
	tokenstore.Store
	tokenstore.Leaser
}

// RunLeases holds a store to what tokenstore.Leaser promises within one life.
// open returns a new, empty store each time; the suite closes it.
func RunLeases(t *testing.T, open func(t *testing.T) LeaseStore) {
	t.Helper()
	for _, group := range [][]leaseCheck{leaseChecks, counterChecks, leaseRaceChecks, leaseEndChecks} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				s := open(t)
				t.Cleanup(func() { _ = s.Close(false) })
				c.run(t, s)
			})
		}
	}
}

// leaseCheck is one promise.
type leaseCheck struct {
	name string
	run  func(t *testing.T, s LeaseStore)
}

// leaseChecks are the promises on one lease.
var leaseChecks = []leaseCheck{
	{"a key that was never granted has no lease", testNoLease},
	{"a lease is kept as it was granted", testLeaseKept},
	{"a change needs the ID and the beat that stand there", testLeaseCompared},
	{"a renewal changes the time to live and counts", testRenewed},
	{"a lease that was ended is gone", testEnded},
	{"what no store can keep is refused", testLeaseRefused},
	{"the held leases are told", testLeasesTold},
}

// leaseTime is a time that every store can keep.
var leaseTime = time.UnixMilli(1_700_000_000_123)

// asked is a lease as a caller asks for it.
func asked(id string) tokenstore.Lease {
	return tokenstore.Lease{ID: id, Holder: "holder of " + id, TTL: 30 * time.Second, GrantedAt: leaseTime}
}

// nobody is the lease of a key that nobody holds.
var nobody tokenstore.Lease

// within gives a call as long as a working store may take.
func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), soon)
}

func grantLease(s LeaseStore, key tokenstore.Key, was, next tokenstore.Lease, epoch uint64) (tokenstore.Lease, error) {
	ctx, cancel := within()
	defer cancel()
	return s.GrantLease(ctx, key, was, next, epoch)
}

func endLease(s LeaseStore, key tokenstore.Key, was tokenstore.Lease) error {
	ctx, cancel := within()
	defer cancel()
	return s.EndLease(ctx, key, was)
}

func renewLease(s LeaseStore, key tokenstore.Key, was tokenstore.Lease, ttl time.Duration) (tokenstore.Lease, error) {
	ctx, cancel := within()
	defer cancel()
	return s.RenewLease(ctx, key, was, ttl)
}

// mustGrant fails the test where a lease of epoch 0 is not granted.
func mustGrant(t *testing.T, s LeaseStore, key tokenstore.Key, was tokenstore.Lease, id string) tokenstore.Lease {
	t.Helper()
	l, err := grantLease(s, key, was, asked(id), 0)
	if err != nil {
		t.Fatalf("GrantLease(%q, %q): %v", key, id, err)
	}
	return l
}

func mustEnd(t *testing.T, s LeaseStore, key tokenstore.Key, was tokenstore.Lease) {
	t.Helper()
	if err := endLease(s, key, was); err != nil {
		t.Fatalf("EndLease(%q): %v", key, err)
	}
}

// wantLease fails the test where the lease of key is another.
func wantLease(t *testing.T, s LeaseStore, key tokenstore.Key, want tokenstore.Lease) {
	t.Helper()
	ctx, cancel := within()
	defer cancel()
	got, err := s.Lease(ctx, key)
	if err != nil {
		t.Fatalf("Lease(%q): %v", key, err)
	}
	wantSameLease(t, got, want)
}

func wantSameLease(t *testing.T, got, want tokenstore.Lease) {
	t.Helper()
	if !got.GrantedAt.Equal(want.GrantedAt) {
		t.Fatalf("granted at %v, want %v", got.GrantedAt, want.GrantedAt)
	}
	got.GrantedAt, want.GrantedAt = time.Time{}, time.Time{}
	if got != want {
		t.Fatalf("lease = %+v, want %+v", got, want)
	}
}

// wantLeaseError fails the test where err is not the refusal by current.
func wantLeaseError(t *testing.T, err error, key tokenstore.Key, current tokenstore.Lease) {
	t.Helper()
	var refused *tokenstore.LeaseError
	if !errors.As(err, &refused) || errors.Is(err, tokenstore.ErrUnavailable) {
		t.Fatalf("error = %v, want a *LeaseError alone", err)
	}
	if refused.Key != key {
		t.Fatalf("refused for key %q, want %q", refused.Key, key)
	}
	wantSameLease(t, refused.Current, current)
}

func testNoLease(t *testing.T, s LeaseStore) {
	wantLease(t, s, "k", nobody)
	mustAcquire(t, s, mark("k", 5)) // a record is no lease
	wantLease(t, s, "k", nobody)
	wantHeld(t, s)
}

func testLeaseKept(t *testing.T, s LeaseStore) {
	keys := []tokenstore.Key{"k", "\xff\x00\n\"", tokenstore.Key(strings.Repeat("k", tokenstore.MaxKey))}
	ids := []string{"i", strings.Repeat("i", tokenstore.MaxLeaseID), "\x00\xff' {"}
	holders := []string{"", "\xfe\x00\"", strings.Repeat("h", tokenstore.MaxHolder)}
	ttls := []time.Duration{1, 1500 * time.Millisecond, math.MaxInt64}
	want := map[tokenstore.Key]tokenstore.Lease{}
	for i, key := range keys {
		next := tokenstore.Lease{ID: ids[i], Holder: holders[i], TTL: ttls[i], GrantedAt: leaseTime,
			Token: token(99), Beat: 7} // neither counts
		got, err := grantLease(s, key, nobody, next, uint64(i))
		if err != nil {
			t.Fatalf("GrantLease(%q): %v", key, err)
		}
		if got.Token == (tokenstore.Token{}) || got.Token == token(99) {
			t.Fatalf("token of %q = %v", key, got.Token)
		}
		next.Token, next.Beat = got.Token, 0
		wantSameLease(t, got, next)
		want[key] = got
	}
	for key, l := range want {
		wantLease(t, s, key, l)
		wantNone(t, s, key) // a grant raises nothing
	}
}

// testLeaseCompared: whatever else stands there than was believed, nothing
// changes, and the refusal says what it is.
func testLeaseCompared(t *testing.T, s LeaseStore) {
	wrong := func(was, current tokenstore.Lease) {
		t.Helper()
		_, err := grantLease(s, "k", was, asked("thief"), 0)
		wantLeaseError(t, err, "k", current)
		if was.Held() {
			_, err = renewLease(s, "k", was, time.Hour)
			wantLeaseError(t, err, "k", current)
		}
		wantLeaseError(t, endLease(s, "k", was), "k", current)
		wantLease(t, s, "k", current)
	}
	wrong(asked("gone"), nobody)

	first := mustGrant(t, s, "k", nobody, "first")
	wrong(nobody, first)
	wrong(asked("other"), first)
	ahead := first
	ahead.Beat++
	wrong(ahead, first)

	renewed, err := renewLease(s, "k", first, time.Minute)
	if err != nil {
		t.Fatalf("RenewLease: %v", err)
	}
	wrong(first, renewed) // who believes it to have run out must see this

	// Only the ID and the beat are compared.
	other := renewed
	other.Holder, other.TTL, other.Token, other.GrantedAt = "x", 1, token(1000), time.Time{}
	second := mustGrant(t, s, "k", other, "second")
	wrong(renewed, second)
	mustEnd(t, s, "k", second)
	wrong(second, nobody)

	if third := mustGrant(t, s, "k", nobody, "third"); !second.Token.Less(third.Token) {
		t.Fatalf("token %v after %v", third.Token, second.Token)
	}
}

func testRenewed(t *testing.T, s LeaseStore) {
	l := mustGrant(t, s, "k", nobody, "a")
	for n, ttl := range []time.Duration{time.Second, time.Hour, 1} {
		got, err := renewLease(s, "k", l, ttl)
		if err != nil {
			t.Fatalf("RenewLease: %v", err)
		}
		l.TTL, l.Beat = ttl, uint64(n+1)
		wantSameLease(t, got, l)
		wantLease(t, s, "k", l)
	}
	// What the caller says beside the ID and the beat is not taken over.
	said := tokenstore.Lease{ID: "a", Beat: l.Beat, Holder: "x", Token: token(1000)}
	got, err := renewLease(s, "k", said, time.Minute)
	if err != nil {
		t.Fatalf("RenewLease: %v", err)
	}
	l.TTL, l.Beat = time.Minute, l.Beat+1
	wantSameLease(t, got, l)
	wantLease(t, s, "k", l)
}

func testEnded(t *testing.T, s LeaseStore) {
	if err := endLease(s, "k", nobody); err != nil {
		t.Fatalf("EndLease of nobody's: %v", err)
	}
	l, other := mustGrant(t, s, "k", nobody, "a"), mustGrant(t, s, "other", nobody, "b")
	mustEnd(t, s, "k", l)
	wantLease(t, s, "k", nobody)
	wantHeld(t, s, "other")
	wantLease(t, s, "other", other)
	again := mustGrant(t, s, "k", nobody, "a")
	if !other.Token.Less(again.Token) {
		t.Fatalf("token %v after %v", again.Token, other.Token)
	}
	wantHeld(t, s, "k", "other")
}

func testLeaseRefused(t *testing.T, s LeaseStore) {
	l := mustGrant(t, s, "k", nobody, "a")
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		key  tokenstore.Key
		next tokenstore.Lease
	}{
		"no key":           {"", asked("b")},
		"a long key":       {tokenstore.Key(long(tokenstore.MaxKey + 1)), asked("b")},
		"no ID":            {"k2", tokenstore.Lease{TTL: 1}},
		"a long ID":        {"k2", tokenstore.Lease{ID: long(tokenstore.MaxLeaseID + 1), TTL: 1}},
		"a long holder":    {"k2", tokenstore.Lease{ID: "b", Holder: long(tokenstore.MaxHolder + 1), TTL: 1}},
		"no time to live":  {"k2", tokenstore.Lease{ID: "b"}},
		"a time below one": {"k2", tokenstore.Lease{ID: "b", TTL: -1}},
	} {
		if _, err := grantLease(s, c.key, nobody, c.next, 0); !errors.Is(err, tokenstore.ErrUnavailable) {
			t.Fatalf("%s: %v, want an error that wraps ErrUnavailable", name, err)
		}
	}
	for _, ttl := range []time.Duration{0, -1} {
		if _, err := renewLease(s, "k", l, ttl); !errors.Is(err, tokenstore.ErrUnavailable) {
			t.Fatalf("RenewLease for %v: %v", ttl, err)
		}
	}
	if _, err := renewLease(s, "k2", nobody, 1); err == nil {
		t.Fatal("nobody's lease was renewed")
	}
	wantLease(t, s, "k", l)
	wantHeld(t, s, "k")
}

// wantHeld fails the test where the leases that are told are not those of
// keys, each once.
func wantHeld(t *testing.T, s LeaseStore, keys ...tokenstore.Key) {
	t.Helper()
	held := map[tokenstore.Key]tokenstore.Lease{}
	err := s.Leases(context.Background(), func(key tokenstore.Key, l tokenstore.Lease) bool {
		if _, twice := held[key]; twice {
			t.Errorf("the lease of %q is told twice", key)
		}
		held[key] = l
		return true
	})
	if err != nil {
		t.Fatalf("Leases: %v", err)
	}
	for _, key := range keys {
		l, ok := held[key]
		if !ok {
			t.Fatalf("the lease of %q is not told", key)
		}
		wantLease(t, s, key, l)
	}
	if len(held) != len(keys) {
		t.Fatalf("%d leases are told, want %d", len(held), len(keys))
	}
}

func testLeasesTold(t *testing.T, s LeaseStore) {
	// Grants of a shared store go one after the other: each caller waits for
	// those of the others, and for no more of them than there are callers.
	const n, callers = 1100, 32 // more than a page of most stores
	var keys []tokenstore.Key
	var wg sync.WaitGroup
	ended := func(i int) bool { return i%100 == 50 }
	name := func(i int) tokenstore.Key { return tokenstore.Key(fmt.Sprintf("k%04d", i)) }
	for i := range n {
		if !ended(i) {
			keys = append(keys, name(i))
		}
	}
	for c := range callers {
		wg.Go(func() {
			for i := c; i < n; i += callers {
				l, err := grantLease(s, name(i), nobody, asked(fmt.Sprint("id ", i)), 0)
				if err == nil && ended(i) {
					err = endLease(s, name(i), l)
				}
				if err != nil {
					t.Errorf("%s: %v", name(i), err)
				}
			}
		})
	}
	wg.Wait()
	wantHeld(t, s, keys...)

	told := 0
	err := s.Leases(context.Background(), func(tokenstore.Key, tokenstore.Lease) bool { told++; return told < 5 })
	if err != nil || told != 5 {
		t.Fatalf("Leases that is stopped at 5 = %v, told %d", err, told)
	}
	// each may use the store.
	err = s.Leases(context.Background(), func(key tokenstore.Key, l tokenstore.Lease) bool {
		mustEnd(t, s, key, l)
		return false
	})
	if err != nil {
		t.Fatalf("Leases: %v", err)
	}
}
