package embedded

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// TestRaisedCounterOutlives: a counter that was raised is there after a crash,
// and a batch that was begun before does not bring the old one back.
func TestRaisedCounterOutlives(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ask := tokenstore.Lease{ID: "i", TTL: time.Second}
	if _, err := s.GrantLease(t.Context(), "a", tokenstore.Lease{}, ask, 0); err != nil {
		t.Fatal(err)
	}
	if now, err := s.RaiseGranted(t.Context(), 1000); err != nil || now != 1000 {
		t.Fatalf("RaiseGranted = %d, %v", now, err)
	}
	s.leases.put(nil, 1) // the end of a batch that has read the counter before
	l, err := s.GrantLease(t.Context(), "b", tokenstore.Lease{}, ask, 0)
	if err != nil || l.Token.Major != 1001 {
		t.Fatalf("token %v after a counter of 1000, %v", l.Token, err)
	}
	if now, err := s.RaiseGranted(t.Context(), 5000); err != nil || now != 5000 {
		t.Fatalf("RaiseGranted = %d, %v", now, err)
	}
	if err := s.Close(false); err != nil { // as a crash: the log is not folded
		t.Fatal(err)
	}
	s = open(t, dir)
	if l, err := s.GrantLease(t.Context(), "c", tokenstore.Lease{}, ask, 0); err != nil || l.Token.Major != 5001 {
		t.Fatalf("token %v after a restart, %v", l.Token, err)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
}
