package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// counted counts the calls of the store by their name.
func (r *rig) counted() map[string]int {
	calls := map[string]int{}
	r.store.fail(func(call string) error { calls[call]++; return nil }, nil)
	return calls
}

// What is given back while somebody waits costs one write until he has it, and
// the release is told of before his grant.
func TestAHandOverIsOneWrite(t *testing.T) {
	for name, in := range map[string]func(*testing.T, func(*rig)){"sole": inBubble, "shared": inShared} {
		t.Run(name, func(t *testing.T) {
			in(t, func(r *rig) {
				h := r.acquire(r.issuer, "A")
				b := r.ask(r.Context(), r.issuer, "B", time.Hour)
				calls := r.counted()
				if err := r.issuer.Release(r.Context(), key, h.ID); err != nil {
					t.Fatal(err)
				}
				next := <-b
				if next.err != nil || next.Holder != "B" || next.Token.Compare(h.Token) <= 0 {
					t.Fatalf("%+v behind %+v", next, h)
				}
				if calls["grant"] != 1 || len(calls) != 1 {
					t.Errorf("the calls of the store are %v, want one grant", calls)
				}
				r.want(r.issuer.Release(r.Context(), key, h.ID), ErrLost) // it is not his any more
				if err := r.issuer.Release(r.Context(), key, next.ID); err != nil {
					t.Error(err)
				}
				var told []What
				for _, e := range r.events {
					told = append(told, e.What)
				}
				if !slices.Equal(told, []What{EventGranted, EventReleased, EventGranted, EventReleased}) {
					t.Errorf("%v was told", told)
				}
				r.empty()
			})
		})
	}
}

// Whoever waits may not take what he is offered: it is ended then, and goes to
// the next one, if there is one.
func TestAnOfferThatIsNotTaken(t *testing.T) {
	for name, refuse := range map[string]func(r *rig){
		"the store does not grant": func(r *rig) { r.store.fail(once("grant"), nil) },
		"no rule makes the key any more": func(r *rig) {
			owners, n := r.owners, 0
			r.owner = func() []Owner {
				if n++; n == 1 {
					return nil
				}
				return owners
			}
		},
		"a fault": func(r *rig) {
			owners, n := r.owners, 0
			r.owner = func() []Owner {
				if n++; n == 1 {
					panic("a fault")
				}
				return owners
			}
		},
	} {
		for _, more := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, others wait: %t", name, more), func(t *testing.T) {
				inBubble(t, func(r *rig) {
					h := r.acquire(r.issuer, "A")
					b := make(chan error, 1)
					go func() {
						defer func() {
							if recover() != nil {
								b <- errors.New("a fault")
							}
						}()
						_, err := r.issuer.Acquire(context.Background(), Request{Key: key, Holder: "B", Wait: time.Hour, Fence: true})
						b <- err
					}()
					synctest.Wait()
					var c <-chan got
					if more {
						c = r.ask(r.Context(), r.issuer, "C", time.Hour)
					}
					refuse(r)
					at := clock()
					released := make(chan error, 1)
					go func() { released <- r.issuer.Release(r.Context(), key, h.ID) }()
					synctest.Wait()
					if len(released) == 0 {
						t.Error("the release waits for nobody")
						r.issuer.hasTried(r.issuer.find(key))
					}
					r.want(<-released, nil)
					if r.stored().ID == h.ID {
						t.Error("what was released still stands in the store")
					}
					if err := <-b; err == nil {
						t.Error("B has the lease")
					}
					if more {
						next := <-c
						if next.err != nil || next.at != at {
							t.Errorf("%+v after %v", next, next.at-at)
						}
						r.want(r.issuer.Release(r.Context(), key, next.ID), nil)
					}
					time.Sleep(2 * lookAgain)
					r.empty()
					if n := r.happened(EventLost); n != 0 {
						t.Errorf("%d were lost", n)
					}
				})
			})
		}
	}
}

// A grant in the place of the lease whose result nobody knows: the release is
// answered by what is found then.
func TestAnOfferOfUnknownResult(t *testing.T) {
	for name, made := range map[string]bool{"made": true, "not made": false} {
		t.Run(name, func(t *testing.T) {
			inShared(t, func(r *rig) {
				h := r.acquire(r.issuer, "A")
				b := r.ask(r.Context(), r.issuer, "B", time.Hour)
				looks := 0
				lost := func(call string) error {
					if call == "grant" {
						return errGone
					}
					if call == "look" {
						if looks++; looks == 1 {
							return errGone
						}
					}
					return nil
				}
				if made {
					r.store.fail(nil, lost)
				} else {
					r.store.fail(lost, nil)
				}
				r.want(r.issuer.Release(r.Context(), key, h.ID), nil)
				r.want((<-b).err, tokenstore.ErrUnavailable)
				r.store.fail(nil, nil)
				if next := r.acquire(r.issuer, "C"); next.Token.Compare(h.Token) <= 0 {
					t.Errorf("token %v behind %v", next.Token, h.Token)
				}
				if n := r.happened(EventReleased); n != 1 {
					t.Errorf("%d releases were told", n)
				}
			})
		})
	}
}

// What took the place of an offer is somebody's, and is lost when it runs out.
func TestLostBehindAnOffer(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := r.acquire(r.issuer, "A")
		b := r.ask(r.Context(), r.issuer, "B", time.Hour)
		r.want(r.issuer.Release(r.Context(), key, h.ID), nil)
		r.want((<-b).err, nil)
		time.Sleep(time.Minute)
		if n := r.happened(EventLost); n != 1 {
			t.Errorf("%d were lost", n)
		}
	})
	s := state{lease: tokenstore.Lease{ID: "A", TTL: 1}}
	s.offer(0)
	s.saw(tokenstore.Lease{ID: "B", TTL: 1}, 0)
	if !s.wasLost() {
		t.Error("another's lease counts as given back")
	}
}

// What was renewed at another proxy is another lease in the store, and its
// holder gives back that one.
func TestAnOfferThatWasRenewedElsewhere(t *testing.T) {
	inShared(t, func(r *rig) {
		other := r.open(Options{})
		defer other.Close()
		h := r.acquire(r.issuer, "A")
		b := r.ask(r.Context(), r.issuer, "B", time.Hour)
		if _, err := other.Renew(r.Context(), key, h.ID, 0); err != nil {
			t.Fatal(err)
		}
		at := clock()
		r.want(r.issuer.Release(r.Context(), key, h.ID), nil)
		if next := <-b; next.err != nil || next.at != at || r.happened(EventReleased) != 1 || r.happened(EventLost) != 0 {
			t.Errorf("%+v after %v; %v", next, next.at-at, r.events)
		}
	})
}

// A lease is given back here that another proxy has let go before, and so is
// that which stands in its place: the second offer does not leave the first one
// without an answer.
func TestAnOfferInThePlaceOfAnother(t *testing.T) {
	inShared(t, func(r *rig) {
		other := r.open(Options{})
		defer other.Close()
		a := r.acquire(r.issuer, "A")
		b := r.ask(r.Context(), r.issuer, "B", time.Hour)
		if err := other.Release(r.Context(), key, a.ID); err != nil {
			t.Fatal(err)
		}
		c := r.acquire(other, "C")
		e := r.issuer.find(key)
		defer r.issuer.release(e)
		_ = e.take(r.Context())
		released := make(chan error, 2)
		for _, id := range []string{a.ID, c.ID} { // in this order
			go func() { released <- r.issuer.Release(context.Background(), key, id) }()
			synctest.Wait()
		}
		e.give()
		synctest.Wait()
		if len(released) != 2 {
			t.Fatalf("%d of two releases came back", len(released))
		}
		r.want(<-released, nil)
		r.want(<-released, nil)
		if next := <-b; next.err != nil || next.Token.Compare(c.Token) <= 0 {
			t.Errorf("%+v behind %+v", next, c)
		}
	})
}
