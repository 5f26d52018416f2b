package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// leaseRaceChecks are the promises to many callers at once, and
// leaseEndChecks those to callers that give up or come too late.
var (
	leaseRaceChecks = []leaseCheck{
		{"of concurrent grants of one key one wins", testOneGrant},
		{"concurrent grants have tokens of their own", testOwnTokens},
		{"a grant and a raise of one key do not miss each other", testGrantAndRaise},
	}
	leaseEndChecks = []leaseCheck{
		{"leases and a context that is over", testLeaseContextOver},
		{"callers that give up never get a token twice", testLeaseGiveUp},
		{"a closed store tells of no lease", testLeaseClosed},
	}
)

func testOneGrant(t *testing.T, s LeaseStore) {
	const callers, rounds = 8, 10
	was := nobody
	for n := range rounds {
		var won atomic.Pointer[tokenstore.Lease]
		var lost atomic.Int64
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				l, err := grantLease(s, "k", was, asked(fmt.Sprint(n, " of ", c)), 0)
				var refused *tokenstore.LeaseError
				switch {
				case err == nil:
					if !won.CompareAndSwap(nil, &l) {
						t.Errorf("round %d: two callers have the lease", n)
					}
				case errors.As(err, &refused):
					lost.Add(1)
				default:
					t.Errorf("round %d: %v", n, err)
				}
			})
		}
		wg.Wait()
		if won.Load() == nil || lost.Load() != callers-1 {
			t.Fatalf("round %d: %d lost, and somebody won: %v", n, lost.Load(), won.Load() != nil)
		}
		if l := *won.Load(); !was.Token.Less(l.Token) {
			t.Fatalf("round %d: token %v after %v", n, l.Token, was.Token)
		}
		was = *won.Load()
		wantLease(t, s, "k", was)
	}
}

// testOwnTokens: no token is granted twice, and a grant that begins when
// another was told of has a higher one: a lower one would be stale.
func testOwnTokens(t *testing.T, s LeaseStore) {
	const callers, rounds = 16, 12
	var told atomic.Uint64 // the highest token that was told of
	var mu sync.Mutex
	var all []uint64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			key, was := tokenstore.Key(fmt.Sprint("k", c)), nobody
			for r := range rounds {
				floor := told.Load()
				l, err := grantLease(s, key, was, asked(fmt.Sprint(c, " ", r)), 0)
				if err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
				if l.Token.Major <= floor {
					t.Errorf("%s: token %v after %d was told of", key, l.Token, floor)
				}
				for old := told.Load(); old < l.Token.Major && !told.CompareAndSwap(old, l.Token.Major); old = told.Load() {
				}
				mu.Lock()
				all = append(all, l.Token.Major)
				mu.Unlock()
				if was = l; r%3 == 0 {
					if err := endLease(s, key, l); err != nil {
						t.Errorf("%s: %v", key, err)
					}
					was = nobody
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != callers*rounds {
		t.Errorf("%d tokens in %d grants of %d: %v", n, len(all), callers*rounds, all)
	}
}

// testGrantAndRaise: whatever was on record when a grant began is below its
// token, whoever else raises and grants meanwhile.
func testGrantAndRaise(t *testing.T, s LeaseStore) {
	const rounds = 60
	var recorded atomic.Uint64
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range uint64(rounds) {
			tok := (n + 1) * 1000
			err := acquire(s, mark("k", tok))
			var stale *tokenstore.StaleError
			if err != nil && !errors.As(err, &stale) {
				t.Errorf("Acquire: %v", err)
				return
			}
			recorded.Store(tok) // or more
		}
	})
	wg.Go(func() {
		was := nobody
		for n := range rounds {
			floor := recorded.Load()
			l, err := grantLease(s, "k", was, asked(fmt.Sprint("i", n)), 0)
			if err != nil || l.Token.Major <= floor || !was.Token.Less(l.Token) {
				t.Errorf("GrantLease = %v, %v; %d was on record, %v granted", l.Token, err, floor, was.Token)
				return
			}
			was = l
		}
	})
	wg.Wait()
}

func testLeaseContextOver(t *testing.T, s LeaseStore) {
	l := mustGrant(t, s, "k", nobody, "a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	began := time.Now()
	_, err := s.Lease(ctx, "k")
	wantNotKnown(t, err)
	_, err = s.GrantLease(ctx, "k", nobody, asked("b"), 0) // a refusal too: nothing is known
	wantNotKnown(t, err)
	_, err = s.GrantLease(ctx, "new", nobody, asked("b"), 0)
	wantNotKnown(t, err)
	_, err = s.RenewLease(ctx, "k", l, 1)
	wantNotKnown(t, err)
	wantNotKnown(t, s.EndLease(ctx, "k", asked("other")))
	wantNotKnown(t, s.Leases(ctx, func(tokenstore.Key, tokenstore.Lease) bool { return true }))
	if d := time.Since(began); d > soon {
		t.Fatalf("the calls returned %v after their context had ended", d)
	}
}

// wantNotKnown fails the test where err does not say that the result is
// unknown, or says more than that.
func wantNotKnown(t *testing.T, err error) {
	t.Helper()
	var refused *tokenstore.LeaseError
	var used *tokenstore.TokensUsedUpError
	if !errors.Is(err, tokenstore.ErrUnavailable) || errors.As(err, &refused) || errors.As(err, &used) {
		t.Fatalf("error %v does not say that nothing is known, and that alone", err)
	}
}

// testLeaseGiveUp: some callers give up while their grant is on its way. It
// may be carried out, and then holds its token.
func testLeaseGiveUp(t *testing.T, s LeaseStore) {
	const callers, rounds = 4, 40
	var mu sync.Mutex
	tokens := map[uint64]bool{}
	given, gaveUp := 0, 0
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for r := range rounds {
				key, id := tokenstore.Key(fmt.Sprint(c, " ", r)), fmt.Sprint("id ", c, " ", r)
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r)*25*time.Microsecond)
				l, err := s.GrantLease(ctx, key, nobody, asked(id), 0)
				cancel()
				if err != nil && !errors.Is(err, tokenstore.ErrUnavailable) {
					t.Errorf("GrantLease: %v", err)
					return
				}
				if err != nil {
					// It says nothing: what stands there then is looked up.
					ctx, cancel := within()
					found, lerr := s.Lease(ctx, key)
					cancel()
					if lerr != nil || found.Held() && found.ID != id {
						t.Errorf("Lease(%s) = %+v, %v", key, found, lerr)
						return
					}
					l = found
				}
				mu.Lock()
				if err != nil {
					gaveUp++
				}
				if l.Held() {
					if given++; tokens[l.Token.Major] {
						t.Errorf("token %v was granted twice", l.Token)
					}
					tokens[l.Token.Major] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	mustGrant(t, s, "after", nobody, "z")
	if gaveUp == 0 {
		t.Error("nobody gave up: this run shows nothing")
	}
}

func testLeaseClosed(t *testing.T, s LeaseStore) {
	l := mustGrant(t, s, "k", nobody, "a")
	changes := s.LeaseChanges()
	if err := s.Close(true); err != nil {
		t.Fatalf("Close: %v", err)
	}
	ctx, cancel := within()
	defer cancel()
	_, err := s.Lease(ctx, "k")
	wantNotKnown(t, err)
	_, err = s.GrantLease(ctx, "k", l, asked("b"), 0)
	wantNotKnown(t, err)
	_, err = s.RenewLease(ctx, "k", l, 1)
	wantNotKnown(t, err)
	wantNotKnown(t, s.EndLease(ctx, "k", l))
	wantNotKnown(t, s.Leases(ctx, func(tokenstore.Key, tokenstore.Lease) bool { return true }))
	if changes != nil {
		for open := true; open; {
			select {
			case _, open = <-changes:
			case <-ctx.Done():
				t.Fatal("LeaseChanges of a closed store is not closed")
			}
		}
	}
}
