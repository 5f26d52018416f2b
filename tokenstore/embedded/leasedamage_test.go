package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// editLeases changes the leases of a store that is not open.
func editLeases(t *testing.T, dir string, change func(tx *bolt.Tx) error) {
	t.Helper()
	edit(t, dir, func(keys *bolt.Bucket) error { return change(keys.Tx()) })
}

// TestDamagedLease: each kind of damage of one lease fails closed for its key
// alone: it is never taken for nobody's. Records do not suffer.
func TestDamagedLease(t *testing.T) {
	key := []byte("bad")
	good := encodeLease(key, leaseOf("a"))
	flip := func(at int) []byte { b := bytes.Clone(good); b[at] ^= 1; return b }
	sealed := func(change func(b []byte) []byte) []byte {
		return seal(leaseSeal(key), change(bytes.Clone(good[:len(good)-sealSize])))
	}
	for name, raw := range map[string][]byte{
		"form":             flip(0),
		"token":            flip(leaseTTLAt - 1),
		"holder":           flip(len(good) - sealSize - 1),
		"checksum":         flip(len(good) - 1),
		"cut":              good[:len(good)-9],
		"empty":            {},
		"another key's":    encodeLease([]byte("other"), leaseOf("a")),
		"a record":         encodeRecord(key, tokenstore.Record{Highest: tokenstore.Token{Major: 5}}),
		"a form not known": sealed(func(b []byte) []byte { b[0] = 7; return b }),
		"a long ID":        sealed(func(b []byte) []byte { b[leaseLengthAt] = 200; return b }),
		"no ID":            sealed(func(b []byte) []byte { b[leaseLengthAt] = 0; return b }),
		"sealed, no lease": sealed(func([]byte) []byte { return []byte("hello") }),
		"sealed, nothing":  sealed(func([]byte) []byte { return nil }),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			bad, kept := grant(t, s, "bad", tokenstore.Lease{}, "a"), grant(t, s, "good", tokenstore.Lease{}, "b")
			closed(t, s, true)
			editLeases(t, dir, func(tx *bolt.Tx) error { return tx.Bucket(leasesBucket).Put(key, raw) })

			s = open(t, dir)
			_, err1 := s.Lease(t.Context(), "bad")
			_, err2 := s.GrantLease(t.Context(), "bad", tokenstore.Lease{}, leaseOf("c"), 0)
			_, err3 := s.GrantLease(t.Context(), "bad", bad, leaseOf("c"), 0)
			_, err4 := s.RenewLease(t.Context(), "bad", bad, 1)
			err5 := s.EndLease(t.Context(), "bad", bad)
			for _, err := range []error{err1, err2, err3, err4, err5} {
				var damaged *tokenstore.DamagedError
				if !errors.As(err, &damaged) || damaged.Key != "bad" || !errors.Is(err, tokenstore.ErrUnavailable) {
					t.Errorf("%v, want a *DamagedError of the key", err)
				}
			}
			if l := lease(t, s, "good"); !l.Same(kept) {
				t.Errorf("another key suffers: %+v", l)
			}
			acquire(t, s, mark("bad", 9))
			if next := grant(t, s, "good", kept, "d"); next.Token.Major <= kept.Token.Major {
				t.Errorf("token %v after %v", next.Token, kept.Token)
			}
			closed(t, s, true)
			r, err := Verify(dir)
			if err != nil || r.Damaged != 1 || r.Leases != 2 || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "key bad is damaged: of its lease") {
				t.Errorf("Verify = %+v, %v", r, err)
			}
		})
	}
}

// TestLostLease: a lease that is gone, and a counter that is behind, are seen
// by Verify.
func TestLostLease(t *testing.T) {
	for says, change := range map[string]func(tx *bolt.Tx) error{
		"1 leases in the file, and there should be 2": func(tx *bolt.Tx) error { return tx.Bucket(leasesBucket).Delete([]byte("a")) },
		"the last one that was granted is 1": func(tx *bolt.Tx) error {
			return putSealed(tx.Bucket(aboutBucket), grantedKey, []byte{0, 0, 0, 0, 0, 0, 0, 1})
		},
		`the entry "granted token"`: func(tx *bolt.Tx) error { return tx.Bucket(aboutBucket).Put(grantedKey, []byte("x")) },
	} {
		dir := t.TempDir()
		s := open(t, dir)
		grant(t, s, "a", tokenstore.Lease{}, "a")
		grant(t, s, "b", tokenstore.Lease{}, "b")
		closed(t, s, true)
		if r, err := Verify(dir); err != nil || !r.Sound() || r.Leases != 2 {
			t.Fatalf("Verify of a sound store = %+v, %v", r, err)
		}
		editLeases(t, dir, change)
		if r, err := Verify(dir); err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], says) {
			t.Errorf("Verify = %+v, %v; want %q", r, err, says)
		}
		if strings.Contains(says, "entry") {
			// Without its counter a store could grant a token again.
			if _, err := Open(Options{Path: dir}); !errors.Is(err, ErrDamaged) {
				t.Errorf("Open without the counter: %v, want ErrDamaged", err)
			}
		}
	}
}

// TestDamagedLeasePage: where the leases cannot be read at all none is told of
// or granted, and records go on.
func TestDamagedLeasePage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	acquire(t, s, mark("k", 5))
	for i := range 200 { // too many to stand inside the entry of their bucket
		grant(t, s, tokenstore.Key(fmt.Sprint("k", i)), tokenstore.Lease{}, "a")
	}
	closed(t, s, true)
	var root int64
	editLeases(t, dir, func(tx *bolt.Tx) error { root = int64(tx.Bucket(leasesBucket).Root()); return nil })
	f, err := os.OpenFile(filepath.Join(dir, storeFile), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, pageSize-pageHead), root*pageSize+pageHead)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(dir); err != nil || r.Sound() {
		t.Errorf("Verify = %+v, %v", r, err)
	}
	s = open(t, dir)
	wantHighest(t, s, "k", 5)
	acquire(t, s, mark("k", 6))
	_, err1 := s.Lease(t.Context(), "k1")
	_, err2 := s.GrantLease(t.Context(), "new", tokenstore.Lease{}, leaseOf("b"), 0)
	err3 := s.Leases(t.Context(), func(tokenstore.Key, tokenstore.Lease) bool { return true })
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, tokenstore.ErrUnavailable) || !strings.Contains(err.Error(), "store verify") {
			t.Errorf("%v, want one that says what to do", err)
		}
	}
}

// TestLeasesInBadLog: what no crash leaves behind in a log is damage.
func TestLeasesInBadLog(t *testing.T) {
	for name, tc := range map[string]struct {
		entry func() []byte
		says  string
	}{
		"a lease of another key": {func() []byte {
			b := appendLease(beginFrame(nil), "k", leaseOf("i"))
			b[frameHead+entryHead] ^= 1
			return b
		}, "of its lease, its checksum is wrong"},
		"a record for a lease": {func() []byte {
			b := appendEntry(beginFrame(nil), "k", tokenstore.Record{Highest: tokenstore.Token{Major: 9}}, false)
			b[frameHead] = leaseFlag
			return b
		}, "of its lease, its checksum is wrong"},
		"a lease for a record": {func() []byte {
			b := appendLease(beginFrame(nil), "k", leaseOf("i"))
			b[frameHead] = 0
			return b
		}, "its checksum is wrong"},
		"an entry of a kind not known": {func() []byte {
			b := appendLease(beginFrame(nil), "k", tokenstore.Lease{})
			b[frameHead] |= addedFlag
			return b
		}, "holds no records"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			grant(t, s, "k", tokenstore.Lease{}, "a")
			closed(t, s, false)
			l, err := newLog(dir, 2)
			if err != nil {
				t.Fatal(err)
			}
			l.buf = tc.entry()
			if err := errors.Join(l.append(nil), l.close()); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(Options{Path: dir}); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Open: %v, want ErrDamaged that says %q", err, tc.says)
			}
			if _, err := Verify(dir); !errors.Is(err, ErrDamaged) {
				t.Errorf("Verify: %v", err)
			}
		})
	}
}
