package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// TestUnknownRedrawWakes: the token of a grant is overtaken while it drains, and
// the store says nothing of the higher one but grants it. Nobody hears of that
// lease, and whoever waits behind it is next at once.
func TestUnknownRedrawWakes(t *testing.T) {
	inBubble(t, func(r *rig) {
		proceed := make(chan struct{})
		r.drains(func(_ context.Context, token tokenstore.Token) error {
			if token.Major > 1 {
				return nil
			}
			<-proceed
			return &gate.StaleError{Key: key, Token: token, Highest: tokenstore.Token{Major: 9}}
		})
		first := make(chan error, 1)
		go func() {
			_, err := r.issuer.Acquire(context.Background(), Request{Key: key, Holder: "A", TTL: time.Hour / 2, Fence: true})
			first <- err
		}()
		synctest.Wait()
		second := make(chan error, 1)
		go func() {
			_, err := r.issuer.Acquire(context.Background(), Request{Key: key, Holder: "B", TTL: time.Second, Wait: time.Hour, Fence: true})
			second <- err
		}()
		synctest.Wait()
		since := time.Now()
		looks := 0
		r.store.fail(func(call string) error {
			if call == "look" {
				if looks++; looks == 1 {
					return errGone
				}
			}
			return nil
		}, once("grant"))
		close(proceed)
		if err := <-first; err == nil {
			t.Error("A has the lease")
		}
		if err := <-second; err != nil || time.Since(since) > 2*time.Second {
			t.Errorf("B: %v after %v", err, time.Since(since))
		}
	})
}

// TestPanicHoldsNothing: net/http goes on after a panic, and so must the key.
func TestPanicHoldsNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.drains(func(context.Context, tokenstore.Token) error { panic("a fault") })
		func() {
			defer func() { _ = recover() }()
			r.acquire(r.issuer, "A")
		}()
		r.drains(nil)
		h, err := r.issuer.Acquire(context.Background(), Request{Key: key, Holder: "B", Fence: true})
		if err != nil || h.Token.Major != 2 {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// TestOvertakenElsewhere: another issuer has taken the lease that drained here.
// That is somebody else's lease then, and no trouble of the store.
func TestOvertakenElsewhere(t *testing.T) {
	inShared(t, func(r *rig) {
		other := tokenstore.Lease{}
		r.drains(func(ctx context.Context, token tokenstore.Token) error {
			l, err := r.store.Store.Lease(ctx, key)
			if err == nil {
				other, err = r.store.Store.GrantLease(ctx, key, l, tokenstore.Lease{ID: "theirs", Holder: "B", TTL: time.Minute}, 0)
			}
			if err != nil {
				t.Error(err)
			}
			return &gate.StaleError{Key: key, Token: token, Highest: other.Token}
		})
		_, err := r.issuer.Acquire(context.Background(), Request{Key: key, Holder: "A", TTL: time.Second, Fence: true})
		if p := problem(key, err); p.Status != 409 || p.Holder != "B" {
			t.Errorf("%v is told as %d %s", err, p.Status, p.Detail)
		}
	})
}
