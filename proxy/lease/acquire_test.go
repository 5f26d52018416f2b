package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

func TestWaitersAreServedInOrder(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := r.acquire(r.issuer, "A")
		var waiting []<-chan got
		for _, name := range []string{"B", "C", "D"} {
			waiting = append(waiting, r.ask(r.Context(), r.issuer, name, time.Hour))
		}
		for n, name := range []string{"B", "C", "D"} {
			at := clock()
			if err := r.issuer.Release(r.Context(), key, h.ID); err != nil {
				t.Fatal(err)
			}
			next := <-waiting[n]
			if next.err != nil || next.Holder != name || next.Token.Compare(h.Token) <= 0 {
				t.Fatalf("%+v behind %+v", next, h)
			}
			if next.at != at {
				t.Errorf("the hand-over took %v, and nothing had to be waited for", next.at-at)
			}
			r.isHeld(r.issuer, name)
			h = next.Held
		}
		if err := r.issuer.Release(r.Context(), key, h.ID); err != nil {
			t.Fatal(err)
		}
		r.empty()
	})
}

// A dead holder's lease goes to the next one as soon as it has run out, and not
// before.
func TestALeaseRunsOut(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := r.acquire(r.issuer, "A")
		if h.Left != 10*time.Second {
			t.Errorf("it lives %v", h.Left)
		}
		time.Sleep(4 * time.Second)
		b := r.ask(r.Context(), r.issuer, "B", time.Hour)
		end := clock() + 10*time.Second
		if h = r.renew(r.issuer, h); h.Left != 10*time.Second {
			t.Errorf("it lives %v", h.Left)
		}
		next := <-b
		if next.err != nil || next.at < end || next.at > end+100*time.Millisecond {
			t.Errorf("B has it %v from the end: %v", next.at-end, next.err)
		}
		_, err := r.issuer.Renew(r.Context(), key, h.ID, 0)
		r.want(err, ErrLost)
		r.want(r.issuer.Release(r.Context(), key, h.ID), ErrLost)
		r.isHeld(r.issuer, "B")
		if r.happened(EventGranted) != 2 || r.happened(EventLost) != 1 {
			t.Errorf("%d granted, %d lost", r.happened(EventGranted), r.happened(EventLost))
		}
	})
}

// Behind its end a lease cannot be renewed, though nobody has taken it; and it
// does not stay in the store.
func TestNoRenewalBehindTheEnd(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := r.acquire(r.issuer, "A")
		time.Sleep(10 * time.Second)
		_, err := r.issuer.Renew(r.Context(), key, h.ID, 0)
		r.want(err, ErrLost)
		_, err = r.issuer.Status(r.Context(), key)
		r.want(err, ErrFree)
		time.Sleep(time.Second)
		r.empty()
		if n := r.happened(EventLost); n != 1 {
			t.Errorf("%d were lost", n)
		}
		if next := r.acquire(r.issuer, "B"); next.Token.Compare(h.Token) <= 0 {
			t.Errorf("token %v behind %v", next.Token, h.Token)
		}
	})
}

func TestWaitersLeave(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := r.acquire(r.issuer, "A")
		ctx, leave := context.WithCancel(r.Context())
		b := r.ask(ctx, r.issuer, "B", time.Hour)
		c := r.ask(r.Context(), r.issuer, "C", 3*time.Second)
		d := r.ask(r.Context(), r.issuer, "D", time.Hour)
		leave()
		r.want((<-b).err, ErrLeft)
		over := <-c
		var held *HeldError
		if !errors.As(over.err, &held) || held.Current.Holder != "A" || held.Left != 7*time.Second {
			t.Errorf("%v", over.err)
		}
		if n := r.issuer.Counts(); n.Waiting != 1 || n.Held != 1 {
			t.Errorf("%+v", n)
		}
		if err := r.issuer.Release(r.Context(), key, h.ID); err != nil {
			t.Fatal(err)
		}
		if next := <-d; next.err != nil || next.Holder != "D" {
			t.Errorf("%+v", next)
		}
	})
}

// Where there is no room to wait, a key that only seems free is asked for once.
func TestNoRoomElsewhere(t *testing.T) {
	inShared(t, func(r *rig) {
		i := r.open(Options{MaxWaiting: 1})
		defer i.Close()
		r.acquire(r.issuer, "A")
		if _, err := r.issuer.Acquire(r.Context(), Request{Key: "other", Holder: "A"}); err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(r.Context())
		b := r.ask(ctx, i, "B", time.Hour)
		at, held := clock(), (*HeldError)(nil)
		if _, err := i.Acquire(ctx, Request{Key: "other", Wait: time.Hour}); !errors.As(err, &held) || clock() != at {
			t.Errorf("%v after %v", err, clock()-at)
		}
		leave()
		r.want((<-b).err, ErrLeft)
	})
}

// A reload raises the epoch while somebody waits, or while his grant drains: a
// token of the old epoch would fence nothing, since every client's counts as one
// of the new epoch now.
func TestRulesOfTheGrant(t *testing.T) {
	for _, when := range []string{"waiting", "draining"} {
		inBubble(t, func(r *rig) {
			now := []Owner{{Rule: "accounts", Epoch: 1, Fence: r.fence}}
			var raised []tokenstore.Token
			h := r.acquire(r.issuer, "A")
			b := r.ask(r.Context(), r.issuer, "B", time.Hour)
			synctest.Wait()
			if when == "waiting" {
				r.owners = now
			}
			r.drains(func(_ context.Context, token tokenstore.Token) error {
				raised = append(raised, token)
				r.owners = now
				return nil
			})
			if err := r.issuer.Release(r.Context(), key, h.ID); err != nil {
				t.Fatal(err)
			}
			next := <-b
			if next.err != nil || next.Token.Epoch != 1 || raised[len(raised)-1] != next.Token {
				t.Errorf("%s: %v with %v, raised %v", when, next.err, next.Token, raised)
			}
		})
	}
}

// Keys are of the clients' choosing: without a bound they could fill the memory.
func TestMaxHeld(t *testing.T) {
	inBubble(t, func(r *rig) {
		i := r.open(Options{MaxHeld: 2})
		defer i.Close()
		h := r.acquire(i, "A")
		if _, err := i.Acquire(r.Context(), Request{Key: "second"}); err != nil {
			t.Fatal(err)
		}
		_, err := i.Acquire(r.Context(), Request{Key: "third", Wait: time.Hour})
		r.want(err, ErrFull)
		b := r.ask(r.Context(), i, "B", time.Hour)
		if err := i.Release(r.Context(), key, h.ID); err != nil {
			t.Fatal(err)
		}
		if next := <-b; next.err != nil || next.Holder != "B" {
			t.Errorf("%+v", next)
		}
		time.Sleep(time.Minute) // both run out
		if _, err := i.Acquire(r.Context(), Request{Key: "third"}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLimits(t *testing.T) {
	inBubble(t, func(r *rig) {
		i := r.open(Options{MaxWaiting: 3, MaxWaitingPerKey: 2})
		defer i.Close()
		r.acquire(i, "A")
		ctx, leave := context.WithCancel(r.Context())
		b, c := r.ask(ctx, i, "B", time.Hour), r.ask(ctx, i, "C", time.Hour)
		r.want((<-r.ask(ctx, i, "D", time.Hour)).err, ErrOverloaded)
		other := Request{Key: "other", Holder: "E"}
		if _, err := i.Acquire(ctx, other); err != nil {
			t.Fatal(err)
		}
		other.Wait = time.Hour
		e := make(chan error, 1)
		go func() { _, err := i.Acquire(ctx, other); e <- err }()
		synctest.Wait()
		third := other
		third.Key = "third"
		if _, err := i.Acquire(ctx, third); err != nil { // it does not wait
			t.Fatal(err)
		}
		_, err := i.Acquire(ctx, third)
		r.want(err, ErrOverloaded)
		leave()
		r.want((<-b).err, ErrLeft)
		r.want((<-c).err, ErrLeft)
		r.want(<-e, ErrLeft)
	})
}

func TestStop(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := r.acquire(r.issuer, "A")
		b := r.ask(r.Context(), r.issuer, "B", time.Hour)
		r.issuer.Stop()
		r.want((<-b).err, ErrStopping)
		_, err := r.issuer.Acquire(r.Context(), Request{Key: "other"})
		r.want(err, ErrStopping)
		r.renew(r.issuer, h) // what is held stays held
		r.issuer.Close()
		_, err = r.issuer.Renew(r.Context(), key, h.ID, 0)
		r.want(err, ErrStopping)
		if r.stored().ID != h.ID {
			t.Error("the lease is not in the store any more")
		}

		// At the next start it lives its full TTL again.
		time.Sleep(9 * time.Second)
		again := r.open(Options{})
		defer again.Close()
		time.Sleep(9 * time.Second)
		r.isHeld(again, "A")
		r.renew(again, h)
	})
}

func TestTTL(t *testing.T) {
	inBubble(t, func(r *rig) {
		for _, ttl := range []time.Duration{-1, 1, MinTTL - 1, time.Hour + 1} {
			_, err := r.issuer.Acquire(r.Context(), Request{Key: key, TTL: ttl})
			var bad *RequestError
			if !errors.As(err, &bad) {
				t.Errorf("%v: %v", ttl, err)
			}
		}
		h, err := r.issuer.Acquire(r.Context(), Request{Key: key, TTL: time.Minute})
		if err != nil || h.Left != time.Minute {
			t.Fatalf("%+v %v", h, err)
		}
		// A new one is in the store, where the next start finds it.
		if h, err = r.issuer.Renew(r.Context(), key, h.ID, time.Second); err != nil || h.Left != time.Second || r.stored().TTL != time.Second {
			t.Fatalf("%+v %v %+v", h, err, r.stored())
		}
		time.Sleep(time.Second)
		r.acquire(r.issuer, "B")
	})
}

func TestTokensAreUsedUp(t *testing.T) {
	inBubble(t, func(r *rig) {
		last := tokenstore.Token{Major: 1<<64 - 1}
		if _, err := r.store.Acquire(r.Context(), []tokenstore.Mark{{Key: key, Token: last}}); err != nil {
			t.Fatal(err)
		}
		_, err := r.issuer.Acquire(r.Context(), Request{Key: key, Fence: true})
		var used *tokenstore.TokensUsedUpError
		if !errors.As(err, &used) {
			t.Fatal(err)
		}
		r.empty()
		r.owners[0].MaxToken = tokenstore.Token{Major: 1}
		r.owners[0].Epoch = 1
		r.acquire(r.issuer, "A") // 1/1
		time.Sleep(11 * time.Second)
		_, err = r.issuer.Acquire(r.Context(), Request{Key: key, Fence: true})
		var token *TokenError
		if !errors.As(err, &token) || r.stored().Held() {
			t.Fatalf("%v, %+v", err, r.stored())
		}
		// What the error advises has to help, and what it advises against must not:
		// the counter goes on in every epoch.
		if !strings.Contains(err.Error(), "raise max_token") || strings.Contains(err.Error(), "or the epoch") {
			t.Error(err)
		}
		r.owners[0].Epoch = 2
		if _, err = r.issuer.Acquire(r.Context(), Request{Key: key, Fence: true}); !errors.As(err, &token) {
			t.Fatal(err)
		}
		r.owners[0].MaxToken = tokenstore.Token{Major: 100}
		if h, err := r.issuer.Acquire(r.Context(), Request{Key: key, Fence: true}); err != nil || h.Token.Epoch != 2 {
			t.Fatal(h, err)
		}
	})
}

// slowLooks looks at nothing before hold is closed.
type slowLooks struct {
	seat
	hold chan struct{}
}

func (s slowLooks) Lease(ctx context.Context, k tokenstore.Key) (tokenstore.Lease, error) {
	<-s.hold
	return s.seat.Lease(ctx, k)
}

// Whoever asks about keys, or for leases that are not there, takes no place from
// those who want to hold one: neither while the store is looked at, nor behind.
func TestLookingTakesNoPlace(t *testing.T) {
	for name, in := range map[string]func(*testing.T, func(*rig)){"alone": inBubble, "shared": inShared} {
		t.Run(name, func(t *testing.T) {
			in(t, func(r *rig) {
				hold := make(chan struct{})
				i := r.open(Options{Store: slowLooks{r.store.seat(), hold}, MaxHeld: 2})
				defer i.Close()
				var all sync.WaitGroup
				for n := range 10 {
					k := tokenstore.Key(fmt.Sprintf("random:%d", n))
					for what, want := range map[string]error{"show": ErrFree, "renew": ErrLost, "release": ErrLost} {
						all.Go(func() {
							var err error
							switch what {
							case "show":
								_, err = i.Status(r.Context(), k)
							case "renew":
								_, err = i.Renew(r.Context(), k, "nobody's", 0)
							default:
								err = i.Release(r.Context(), k, "nobody's")
							}
							if !errors.Is(err, want) {
								t.Errorf("%s: %v, want %v", what, err, want)
							}
						})
					}
				}
				synctest.Wait()
				acquired := make(chan error, 2)
				for _, k := range []tokenstore.Key{key, "second"} {
					go func() { _, err := i.Acquire(r.Context(), Request{Key: k}); acquired <- err }()
				}
				synctest.Wait()
				close(hold)
				for range 2 {
					if err := <-acquired; err != nil {
						t.Error(err)
					}
				}
				all.Wait()
				if n := len(i.entries); n != 2 {
					t.Errorf("%d entries", n)
				}
			})
		})
	}
}

// A lease of another proxy's that was not heard of is found by whoever asks.
func TestLookingFindsOthers(t *testing.T) {
	inShared(t, func(r *rig) {
		other := r.open(Options{})
		defer other.Close()
		h := r.acquire(other, "A")
		r.isHeld(r.issuer, "A")
		if st, err := r.issuer.Status(r.Context(), key); err != nil || st.Holder != "A" {
			t.Errorf("%+v, %v", st, err)
		}
		third := r.open(Options{})
		defer third.Close()
		_ = r.renew(third, h)
	})
}
