package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// The time of a lease begins when its drain is over, however long that takes,
// and until then nobody else gets it.
func TestTheDrainIsNotInTheTime(t *testing.T) {
	for name, in := range map[string]func(*testing.T, func(*rig)){"sole": inBubble, "shared": inShared} {
		t.Run(name, func(t *testing.T) {
			in(t, func(r *rig) {
				r.drains(func(context.Context, tokenstore.Token) error { time.Sleep(25 * time.Second); return nil })
				other := r.issuer
				if r.store.shared {
					other = r.open(Options{})
					defer other.Close()
				}
				a := r.ask(r.Context(), r.issuer, "A", 0)
				b := r.ask(r.Context(), other, "B", time.Minute)
				began := clock()
				time.Sleep(15 * time.Second)
				r.isHeld(other, "A")
				h := <-a
				if h.err != nil || clock()-began != 25*time.Second || h.Left != 10*time.Second {
					t.Fatalf("%+v after %v", h, clock()-began)
				}
				end := clock() + h.Left
				next := <-b
				if next.err != nil || next.at < end+25*time.Second || next.at > end+26*time.Second {
					t.Errorf("B has it %v from the end: %v", next.at-end, next.err)
				}
			})
		})
	}
}

// A client that leaves during the drain, a drain that takes too long: the lease
// is ended, and the next one gets it.
func TestAGrantThatIsNotTold(t *testing.T) {
	slow := &gate.DrainTimeoutError{Key: key, RetryAfter: 3 * time.Second}
	for name, tt := range map[string]struct {
		fence, want error
		leave       bool
	}{
		"left":  {gate.ErrLeft, gate.ErrLeft, true},
		"late":  {nil, ErrLeft, true}, // the drain was over at that very moment
		"drain": {slow, slow, false},
		"store": {errGone, errGone, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				draining := make(chan error)
				r.drains(func(context.Context, tokenstore.Token) error { return <-draining })
				ctx, leave := context.WithCancel(r.Context())
				defer leave()
				a := r.ask(ctx, r.issuer, "A", 0)
				b := r.ask(r.Context(), r.issuer, "B", time.Minute)
				r.isHeld(r.issuer, "A")
				r.drains(nil)
				if tt.leave {
					leave()
				}
				draining <- tt.fence
				r.want((<-a).err, tt.want)
				if next := <-b; next.err != nil || next.Holder != "B" {
					t.Errorf("%+v", next)
				}
				if r.happened(EventGranted) != 1 || r.happened(EventLost) != 0 {
					t.Errorf("%d granted, %d lost", r.happened(EventGranted), r.happened(EventLost))
				}
			})
		})
	}
}

// Nor does it stay where the store does not say that it was ended.
func TestAGrantThatMayNotBeEnded(t *testing.T) {
	for kind, in := range map[string]func(*testing.T, func(*rig)){"sole": inBubble, "shared": inShared} {
		for name, made := range map[string]bool{"ended": true, "not ended": false} {
			t.Run(kind+" "+name, func(t *testing.T) {
				in(t, func(r *rig) {
					r.drains(func(context.Context, tokenstore.Token) error { return errGone })
					if made {
						r.store.fail(nil, once("end"))
					} else {
						r.store.fail(once("end"), nil)
					}
					_, err := r.issuer.Acquire(r.Context(), Request{Key: key, Fence: true})
					r.want(err, tokenstore.ErrUnavailable)
					r.drains(nil)
					r.acquire(r.issuer, "B")
				})
			})
		}
	}
}

// Somebody raises a higher token between the grant and the raise: a higher one
// is drawn.
func TestAnOvertakenTokenIsDrawnAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		var fenced []tokenstore.Token
		raise := func(n uint64) error {
			high := tokenstore.Token{Major: n}
			if _, err := r.store.Acquire(r.Context(), []tokenstore.Mark{{Key: key, Token: high}}); err != nil {
				t.Error(err)
			}
			return &gate.StaleError{Key: key, Highest: high}
		}
		r.drains(func(_ context.Context, token tokenstore.Token) error {
			if fenced = append(fenced, token); len(fenced) < 3 {
				return raise(token.Major + 100)
			}
			return nil
		})
		if h := r.acquire(r.issuer, "A"); h.Token.Major != 203 || r.stored().Token != h.Token {
			t.Errorf("%+v, and drawn were %v", h, fenced)
		}
		time.Sleep(time.Minute)
		r.drains(func(_ context.Context, token tokenstore.Token) error { return raise(token.Major + 1) })
		_, err := r.issuer.Acquire(r.Context(), Request{Key: key, Fence: true})
		r.want(err, ErrRaced)
		if r.stored().Held() {
			t.Error("a lease is left that nobody holds")
		}
	})
}

// A lease whose time is over before it could be told is no grant, and no
// renewal either.
func TestTheStoreIsTooSlow(t *testing.T) {
	inShared(t, func(r *rig) {
		const ttl = time.Second
		slow := func(call string) error {
			if call == "grant" || call == "renew" {
				time.Sleep(ttl)
			}
			return nil
		}
		r.store.fail(slow, nil)
		_, err := r.issuer.Acquire(r.Context(), Request{Key: key, Holder: "A", TTL: ttl, Fence: true})
		r.want(err, tokenstore.ErrUnavailable)
		if l := r.stored(); l.Held() {
			t.Errorf("%+v is held by nobody", l)
		}
		r.store.fail(nil, nil)
		h, err := r.issuer.Acquire(r.Context(), Request{Key: key, Holder: "A", TTL: ttl, Fence: true})
		r.want(err, nil)
		r.store.fail(slow, nil)
		_, err = r.issuer.Renew(r.Context(), key, h.ID, 0)
		r.want(err, tokenstore.ErrUnavailable)
	})
}

// Without a fence nothing is raised.
func TestWithoutAFence(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.drains(func(context.Context, tokenstore.Token) error { t.Error("raised"); return nil })
		if _, err := r.issuer.Acquire(r.Context(), Request{Key: key}); err != nil {
			t.Error(err)
		}
		if _, err := r.issuer.Acquire(r.Context(), Request{Key: "a lock alone"}); err != nil {
			t.Error(err)
		}
	})
}

func TestOwners(t *testing.T) {
	inBubble(t, func(r *rig) {
		one, later, hex := Owner{Rule: "one", Fence: r.fence}, Owner{Rule: "later", Epoch: 3, Fence: r.fence}, Owner{Rule: "zxids", Format: tokenstore.Hex, Fence: r.fence}
		for _, tt := range []struct {
			owners []Owner
			rule   string
			fence  bool
			want   string // the owner, or none
			ok     bool
		}{
			{nil, "", true, "", false},
			{nil, "", false, "", true},
			{nil, "one", false, "", false},
			{[]Owner{one}, "", true, "one", true},
			{[]Owner{one}, "one", false, "one", true},
			{[]Owner{one}, "two", true, "", false},
			{[]Owner{one, later}, "", true, "", false},
			{[]Owner{one, later}, "", false, "", false},
			{[]Owner{one, later}, "later", true, "later", true},
			{[]Owner{later, later}, "", true, "later", true},
			{[]Owner{hex}, "", true, "", false},
			{[]Owner{hex}, "zxids", false, "", false},
			{[]Owner{one, hex}, "", true, "", false},
			{[]Owner{one, hex}, "one", true, "one", true},
		} {
			r.owners = tt.owners
			got, err := r.issuer.owner(key, tt.rule, tt.fence)
			var bad *KeyError
			if got.Rule != tt.want && err == nil || (err == nil) != tt.ok || err != nil && !errors.As(err, &bad) {
				t.Errorf("%+v: %q, %v", tt, got.Rule, err)
			}
		}
		r.owners = []Owner{one, later}
		h, err := r.issuer.Acquire(r.Context(), Request{Key: key, Rule: "later", Fence: true})
		if err != nil || h.Token.Epoch != 3 {
			t.Errorf("%+v, %v", h, err)
		}
		synctest.Wait()
	})
}
