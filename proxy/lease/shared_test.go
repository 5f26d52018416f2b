package lease

import (
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Another proxy's lease has run out once it stood unchanged for its TTL from
// when it was first seen here, and never earlier, whatever its holder does at
// the other proxy.
func TestAnotherProxysLeaseRunsOut(t *testing.T) {
	inShared(t, func(r *rig) {
		other := r.open(Options{})
		defer other.Close()
		h := r.acquire(r.issuer, "A")
		time.Sleep(9350 * time.Millisecond)
		b := r.ask(r.Context(), other, "B", time.Hour) // sees it for the first time
		h = r.renew(r.issuer, h)
		time.Sleep(9350 * time.Millisecond)
		h = r.renew(other, h)               // a holder may go to any proxy
		time.Sleep(9950 * time.Millisecond) // the other finds it renewed when it wants to take it
		h = r.renew(r.issuer, h)
		end := clock() + h.Left
		if h.Left != 10*time.Second {
			t.Errorf("it lives %v", h.Left)
		}
		next := <-b
		if next.err != nil || next.at < end || next.at > end+100*time.Millisecond {
			t.Errorf("B has it %v from the end: %v", next.at-end, next.err)
		}
		for _, i := range []*Issuer{r.issuer, other} {
			_, err := i.Renew(r.Context(), key, h.ID, 0)
			r.want(err, ErrLost)
			r.isHeld(i, "B")
		}
		if next.Token.Compare(h.Token) <= 0 {
			t.Errorf("token %v behind %v", next.Token, h.Token)
		}
	})
}

// A release at another proxy is heard of, or found.
func TestAReleaseAtAnotherProxy(t *testing.T) {
	for name, hints := range map[string][]tokenstore.Key{"hint": {"somebody else's", key}, "hints were missed": {""}, "poll": nil} {
		t.Run(name, func(t *testing.T) {
			inShared(t, func(r *rig) {
				other := r.open(Options{})
				defer other.Close()
				h := r.acquire(r.issuer, "A")
				b := r.ask(r.Context(), other, "B", time.Hour)
				time.Sleep(100 * time.Millisecond)
				at := clock()
				if err := r.issuer.Release(r.Context(), key, h.ID); err != nil {
					t.Fatal(err)
				}
				within := pollEvery
				for _, k := range hints {
					r.hint(k)
					within = 0
				}
				if next := <-b; next.err != nil || next.at-at > within {
					t.Errorf("B has it after %v: %v", next.at-at, next.err)
				}
			})
		})
	}
}

// What is known here may be long out of date: nobody is told on it that a lease
// is lost, free or held.
func TestOldKnowledgeDecidesNothing(t *testing.T) {
	inShared(t, func(r *rig) {
		other := r.open(Options{})
		defer other.Close()
		h := r.acquire(r.issuer, "A")
		for range 5 {
			time.Sleep(8 * time.Second)
			h = r.renew(other, h)
		}
		r.isHeld(r.issuer, "A")
		if st, err := r.issuer.Status(r.Context(), key); err != nil || st.Holder != "A" || st.ID != "" {
			t.Errorf("%+v, %v", st, err)
		}
		h = r.renew(r.issuer, h)
		if err := other.Release(r.Context(), key, h.ID); err != nil {
			t.Fatal(err)
		}
		r.acquire(r.issuer, "B") // without a wait
	})
}

// A lease that is renewed elsewhere while it is cleaned away stays, and one whose
// proxy is gone does not stay for ever.
func TestLeftoversOfOtherProxies(t *testing.T) {
	inShared(t, func(r *rig) {
		gone := r.open(Options{})
		h := r.acquire(gone, "A")
		gone.Close()
		time.Sleep(listEvery + 12*time.Second)
		if r.stored().Held() {
			t.Fatal("it is still in the store")
		}
		_, err := r.issuer.Renew(r.Context(), key, h.ID, 0)
		r.want(err, ErrLost)

		other := r.open(Options{})
		defer other.Close()
		h = r.acquire(r.issuer, "B")
		for range 4 {
			time.Sleep(7 * time.Second)
			h = r.renew(other, h)
		}
	})
}

// Paused for longer than its TTL during a drain, an issuer finds the lease taken
// by another, and does not tell its client that it has it.
func TestTakenDuringTheDrain(t *testing.T) {
	for name, look := range map[string]bool{"and seen": true, "and not seen": false} {
		t.Run(name, func(t *testing.T) { testTaken(t, look) })
	}
}

func testTaken(t *testing.T, look bool) {
	inShared(t, func(r *rig) {
		other := r.open(Options{})
		defer other.Close()
		r.store.fail(func(call string) error { // its beats do not reach the store
			if call == "renew" {
				return errGone
			}
			return nil
		}, nil)
		slow := make(chan struct{})
		r.drains(ctxFence(slow))
		b := r.ask(r.Context(), r.issuer, "B", 0)
		r.drains(nil)
		c := <-r.ask(r.Context(), other, "C", time.Minute)
		if c.err != nil {
			t.Fatal(c.err)
		}
		if look {
			if st, err := r.issuer.Status(r.Context(), key); err != nil || st.Holder != "C" {
				t.Fatalf("%+v, %v", st, err)
			}
		}
		close(slow)
		got := <-b
		if got.err == nil {
			t.Fatalf("two holders: %+v and %+v", got.Held, c.Held)
		}
		r.isHeld(r.issuer, "C")
		r.store.fail(nil, nil)
		r.renew(other, c.Held)
	})
}

// A call without a result is looked at again, and what may come late counts for
// nothing.
func TestUnknownResults(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after string
		granted       bool
	}{
		"made and found":     {after: "grant", granted: true},
		"not made":           {before: "grant"},
		"made and not found": {after: "grant", before: "look"},
	} {
		for kind, in := range map[string]func(*testing.T, func(*rig)){"sole": inBubble, "shared": inShared} {
			t.Run(name+" "+kind, func(t *testing.T) {
				in(t, func(r *rig) {
					r.store.fail(once(tt.before), once(tt.after))
					h, err := r.issuer.Acquire(r.Context(), Request{Key: key, Holder: "A", Fence: true})
					if tt.granted {
						if err != nil || r.stored().ID != h.ID {
							t.Fatalf("%+v, %v", h, err)
						}
						return
					}
					r.want(err, tokenstore.ErrUnavailable)
					if r.happened(EventGranted) != 0 {
						t.Error("a grant was told")
					}
					r.acquire(r.issuer, "B") // at once: nobody believes in what may be there
					if r.happened(EventLost) != 0 {
						t.Error("a lease was lost that nobody had")
					}
				})
			})
		}
	}
}

func TestUnknownRelease(t *testing.T) {
	for name, made := range map[string]bool{"made": true, "not made": false} {
		for kind, in := range map[string]func(*testing.T, func(*rig)){"sole": inBubble, "shared": inShared} {
			t.Run(name+" "+kind, func(t *testing.T) {
				in(t, func(r *rig) {
					h := r.acquire(r.issuer, "A")
					if made {
						r.store.fail(nil, once("end"))
					} else {
						r.store.fail(once("end"), nil)
					}
					r.want(r.issuer.Release(r.Context(), key, h.ID), tokenstore.ErrUnavailable)
					_, err := r.issuer.Renew(r.Context(), key, h.ID, 0) // he gave it up
					r.want(err, ErrLost)
					if next := r.acquire(r.issuer, "B"); next.Token.Compare(h.Token) <= 0 {
						t.Errorf("token %v behind %v", next.Token, h.Token)
					}
				})
			})
		}
	}
}

// A store that does not answer at all: nobody is told anything, and nothing is
// left over once it does.
func TestTheStoreIsGone(t *testing.T) {
	for kind, in := range map[string]func(*testing.T, func(*rig)){"sole": inBubble, "shared": inShared} {
		t.Run(kind, func(t *testing.T) {
			in(t, func(r *rig) {
				h := r.acquire(r.issuer, "A")
				r.store.fail(func(string) error { return errGone }, nil)
				if kind == "shared" {
					_, err := r.issuer.Renew(r.Context(), key, h.ID, 0)
					r.want(err, tokenstore.ErrUnavailable)
				}
				time.Sleep(11 * time.Second)
				_, err := r.issuer.Acquire(r.Context(), Request{Key: key, Holder: "B", Wait: time.Minute})
				r.want(err, tokenstore.ErrUnavailable)
				var held *HeldError
				if errors.As(err, &held) {
					t.Error(err)
				}
				r.store.fail(nil, nil)
				time.Sleep(30 * time.Second)
				r.empty()
				r.acquire(r.issuer, "C")
			})
		})
	}
}

// A waiter whose turn ends with an error hands it on.
func TestAFailureIsHandedOn(t *testing.T) {
	for name, end := range map[string]func(r *rig, h Held){
		"released": func(r *rig, h Held) {
			if err := r.issuer.Release(r.Context(), key, h.ID); err != nil {
				r.Fatal(err)
			}
		},
		"expired": func(*rig, Held) {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				h := r.acquire(r.issuer, "A")
				b, c := r.ask(r.Context(), r.issuer, "B", time.Hour), r.ask(r.Context(), r.issuer, "C", time.Hour)
				r.store.fail(once("grant"), nil)
				end(r, h)
				failed := <-b
				r.want(failed.err, tokenstore.ErrUnavailable)
				if next := <-c; next.err != nil || next.at != failed.at {
					t.Errorf("C has it after %v: %v", next.at-failed.at, next.err)
				}
			})
		})
	}
}

// A new TTL that the store may have, or not, is looked up before the lease is
// renewed: at the next start it would live no longer than the store says.
func TestUnknownTTL(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := r.acquire(r.issuer, "A")
		r.store.fail(nil, once("renew"))
		_, err := r.issuer.Renew(r.Context(), key, h.ID, time.Second)
		r.want(err, tokenstore.ErrUnavailable)
		if h = r.renew(r.issuer, h); h.Left != r.stored().TTL {
			t.Errorf("it lives %v, and in the store %v", h.Left, r.stored().TTL)
		}
	})
}

// A beat without a result may have reached the store. When it is found there
// later, nobody knows for how long the other issuers have seen it: the holder is
// not told to have his whole time from then on, or they would give the lease away
// before his end.
func TestABeatThatIsFoundLater(t *testing.T) {
	inShared(t, func(r *rig) {
		other := r.open(Options{})
		defer other.Close()
		slow := make(chan struct{})
		r.drains(ctxFence(slow))
		a := r.ask(r.Context(), r.issuer, "A", 0)
		r.drains(nil)
		b := r.ask(r.Context(), other, "B", time.Hour) // sees each beat within pollEvery
		r.store.fail(nil, once("renew"))               // the beat at a third of the TTL
		time.Sleep(6 * time.Second)
		if st, err := r.issuer.Status(r.Context(), key); err != nil || st.Holder != "A" { // finds it
			t.Fatalf("%+v, %v", st, err)
		}
		close(slow)
		first := <-a
		if first.err != nil {
			t.Fatal(first.err)
		}
		if next := <-b; next.err != nil || next.at < first.at+first.Left {
			t.Errorf("two holders: B has the lease %v before A's end: %v", first.at+first.Left-next.at, next.err)
		}
	})
}
