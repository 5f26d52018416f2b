package storetest

import (
	"fmt"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// RunDurableLeases is RunLeases for a store that outlives its process. place
// makes a new place for a store and returns what opens the store there, the
// first time and every time after.
func RunDurableLeases(t *testing.T, place func(t *testing.T) (open func(t *testing.T) LeaseStore)) {
	t.Helper()
	RunLeases(t, func(t *testing.T) LeaseStore { return place(t)(t) })
	for name, clean := range map[string]bool{"leases outlive a clean stop": true, "leases outlive an unclean stop": false} {
		t.Run(name, func(t *testing.T) { testLeaseLives(t, place(t), clean) })
	}
}

// testLeaseLives: every life finds the leases as the last one left them, and
// goes on with the counter: ended ones count too.
func testLeaseLives(t *testing.T, open func(t *testing.T) LeaseStore, clean bool) {
	want := map[tokenstore.Key]tokenstore.Lease{}
	last := uint64(0)
	for life := range 5 {
		s := open(t)
		t.Cleanup(func() { _ = s.Close(false) })
		var keys []tokenstore.Key
		for key, l := range want {
			wantLease(t, s, key, l)
			keys = append(keys, key)
		}
		wantHeld(t, s, keys...)
		for i := range 20 {
			key := tokenstore.Key(fmt.Sprint("k", i))
			if life == 3 && i > 0 {
				break // a life with nothing but an end
			}
			if was := want[key]; was.Held() && i%4 == 0 {
				mustEnd(t, s, key, was)
				delete(want, key)
				continue
			}
			l := mustGrant(t, s, key, want[key], fmt.Sprint(life, " ", i))
			if l.Token.Major <= last {
				t.Fatalf("life %d: token %v after %d", life, l.Token, last)
			}
			last = l.Token.Major
			if i%3 == 0 {
				var err error
				if l, err = renewLease(s, key, l, 1); err != nil {
					t.Fatalf("RenewLease: %v", err)
				}
			}
			if want[key] = l; i%10 == 9 { // the last token of a life is that of an ended one
				mustEnd(t, s, key, l)
				delete(want, key)
			}
		}
		if err := s.Close(clean); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
}
