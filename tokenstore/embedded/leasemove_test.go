package embedded

import (
	"errors"
	"io"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

// leasesOf are the counter and the leases of a dump.
func leasesOf(t *testing.T, b []byte) (granted uint64, all map[tokenstore.Key]tokenstore.Lease) {
	t.Helper()
	r := reader(t, b)
	for {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	all = map[tokenstore.Key]tokenstore.Lease{}
	for _, l := range r.Leases() {
		all[l.Key] = l.Lease
	}
	return r.Header.Granted, all
}

// TestMoveLeases: the leases and the counter come along, from the file and
// from the logs.
func TestMoveLeases(t *testing.T) {
	for name, clean := range map[string]bool{"a clean stop": true, "an unclean one": false} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			s := open(t, from)
			acquire(t, s, mark("k", 5), mark("raised", 1))
			folded := grant(t, s, "folded", tokenstore.Lease{}, "a")
			again := grant(t, s, "again", tokenstore.Lease{}, "b")
			ended := grant(t, s, "ended", tokenstore.Lease{}, "c")
			closed(t, s, true)
			s = open(t, from)
			again = grant(t, s, "again", again, "d")
			renewed, err := s.RenewLease(t.Context(), "again", again, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			fresh := grant(t, s, "fresh", tokenstore.Lease{}, "e")
			last := grant(t, s, "ended", ended, "f")
			if err := s.EndLease(t.Context(), "ended", last); err != nil {
				t.Fatal(err)
			}
			closed(t, s, clean)

			b := exported(t, from)
			granted, all := leasesOf(t, b)
			if granted != last.Token.Major || len(all) != 3 {
				t.Errorf("the counter is %d, of %d leases", granted, len(all))
			}
			imported(t, to, b)
			if g, back := leasesOf(t, exported(t, to)); g != granted || len(back) != 3 || !back["again"].Same(all["again"]) {
				t.Errorf("a second move: the counter is %d, and the leases %+v", g, back)
			}
			if r, err := Verify(to); err != nil || !r.Sound() || r.Leases != 3 {
				t.Errorf("Verify = %+v, %v", r, err)
			}
			s = open(t, to)
			for key, want := range map[tokenstore.Key]tokenstore.Lease{"folded": folded, "again": renewed, "fresh": fresh, "ended": {}} {
				got := lease(t, s, key)
				if !got.Same(want) || got.Token != want.Token || got.TTL != want.TTL || got.Holder != want.Holder || !got.GrantedAt.Equal(want.GrantedAt) {
					t.Errorf("%s: %+v, want %+v", key, got, want)
				}
			}
			if l := grant(t, s, "new", tokenstore.Lease{}, "g"); l.Token.Major <= last.Token.Major {
				t.Errorf("token %v after %v", l.Token, last.Token)
			}
		})
	}
}

// TestImportLeasesOver: a lease that is held stays, and the higher counter
// counts, whichever side has it.
func TestImportLeasesOver(t *testing.T) {
	for name, ahead := range map[string]bool{"ahead": true, "behind": false} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			s := open(t, from)
			grant(t, s, "both", tokenstore.Lease{}, "theirs")
			other := grant(t, s, "other", tokenstore.Lease{}, "theirs")
			closed(t, s, true)
			s = open(t, to)
			mine := grant(t, s, "both", tokenstore.Lease{}, "mine")
			if ahead {
				acquire(t, s, mark("far", 1000))
				mine = grant(t, s, "far", tokenstore.Lease{}, "mine")
			}
			closed(t, s, true)
			imported(t, to, exported(t, from))
			s = open(t, to)
			if lease(t, s, "both").ID != "mine" || lease(t, s, "other").ID != "theirs" {
				t.Errorf("both: %+v, other: %+v", lease(t, s, "both"), lease(t, s, "other"))
			}
			if l := grant(t, s, "new", tokenstore.Lease{}, "g"); l.Token.Major != max(mine.Token.Major, other.Token.Major)+1 {
				t.Errorf("token %v after %v and %v", l.Token, mine.Token, other.Token)
			}
		})
	}
}

// TestExportRefusesLeases: a store without one of its leases is not moved.
func TestExportRefusesLeases(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	grant(t, s, "a", tokenstore.Lease{}, "a")
	grant(t, s, "b", tokenstore.Lease{}, "b")
	closed(t, s, true)
	for name, change := range map[string]func(b *bolt.Bucket) error{
		"damaged": func(b *bolt.Bucket) error { return b.Put([]byte("a"), []byte("x")) },
		"lost":    func(b *bolt.Bucket) error { return b.Delete([]byte("a")) },
	} {
		to := copyStore(t, dir)
		editLeases(t, to, func(tx *bolt.Tx) error { return change(tx.Bucket(leasesBucket)) })
		var damage *tokenstore.DamagedError
		if err := Export(to, time.Second, dump.NewWriter(io.Discard)); !errors.Is(err, ErrDamaged) && !errors.As(err, &damage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
