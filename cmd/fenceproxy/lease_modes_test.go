package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// TestLeasesBesideUnfencedWrites: where writes may come without a token, or pass
// with any, a grant waits for those that came before it, at either proxy, and
// keeps no later one out.
func TestLeasesBesideUnfencedWrites(t *testing.T) {
	for name, start := range movedOver(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := start()
			t.Run("optional", func(t *testing.T) {
				f := newLeaseFleet(t, store, "optional", torture.Settings{Tokens: "optional"})
				f.grantBeside(t, func(string) string { return "" }, "admitted", http.StatusConflict, "rejected;reason=stale-token")
			})
			t.Run("observe", func(t *testing.T) {
				f := newLeaseFleet(t, store, "observe", torture.Settings{Observe: true})
				f.grantBeside(t, func(last string) string { return last }, "would-reject;reason=token-required", http.StatusOK, "would-reject;reason=stale-token")
			})
		})
	}
}

// grantBeside grants a lease while a write is in flight that has the last
// holder's token, or none. A write without one is told bare, and the last holder,
// behind the grant, status and result.
func (f *leaseFleet) grantBeside(t *testing.T, token func(last string) string, bare string, status int, result string) {
	a, b := f.members[0], f.members[1]
	last := f.lease(a, http.MethodPost, wire.LeaseRequest{Holder: "last"}, http.StatusCreated)
	f.writes(b, last.Token, http.StatusOK, "admitted")
	f.lease(a, http.MethodDelete, wire.LeaseRequest{ID: last.ID}, http.StatusNoContent)

	older := f.holds(a, token(last.Token))
	next := f.waitsFor(b, time.Minute)
	select {
	case l := <-next:
		t.Fatalf("%+v was granted, and an older write is in flight at the other proxy", l)
	case <-time.After(200 * time.Millisecond):
	}
	f.writes(a, "", http.StatusOK, bare)
	f.letGo <- struct{}{}
	if got := has(t, "the older write's answer", older); got != "200 admitted <nil>" {
		t.Errorf("the older write: %s", got)
	}
	l := has(t, "the next lease", next)
	for _, m := range f.members {
		f.writes(m, last.Token, status, result)
		f.writes(m, l.Token, http.StatusOK, "admitted")
		f.writes(m, "", http.StatusOK, bare)
	}
	f.lease(b, http.MethodDelete, wire.LeaseRequest{ID: l.ID}, http.StatusNoContent)
}
