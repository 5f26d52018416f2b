package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// edit changes the content of a store that is not open.
func edit(t *testing.T, dir string, change func(keys *bolt.Bucket) error) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, storeFile), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error { return change(tx.Bucket(keysBucket)) })
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedRecord: each kind of damage of one record fails closed for its
// key alone, in the very batch in which others succeed.
func TestDamagedRecord(t *testing.T) {
	good := encodeRecord([]byte("bad"), tokenstore.Record{Highest: tokenstore.Token{Major: 5}})
	flip := func(at int) []byte { b := bytes.Clone(good); b[at] ^= 1; return b }
	unknownFlag := bytes.Clone(good[:len(good)-sealSize])
	unknownFlag[flagsAt] |= 0x80
	for name, raw := range map[string][]byte{
		"token":             flip(tokenstore.TokenSize - 1),
		"flags":             flip(flagsAt),
		"time":              flip(timeAt),
		"checksum":          flip(len(good) - 1),
		"cut":               good[:len(good)-5],
		"empty":             {},
		"another key's":     encodeRecord([]byte("other"), tokenstore.Record{Highest: tokenstore.Token{Major: 5}}),
		"a flag not known":  seal([]byte("bad"), unknownFlag),
		"sealed, no record": seal([]byte("bad"), []byte("hello")),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			acquire(t, s, mark("bad", 5), mark("good", 5))
			if err := s.Close(true); err != nil {
				t.Fatal(err)
			}
			edit(t, dir, func(keys *bolt.Bucket) error { return keys.Put([]byte("bad"), raw) })

			s = open(t, dir)
			var damaged *tokenstore.DamagedError
			if _, _, err := s.Load(t.Context(), "bad"); !errors.As(err, &damaged) || damaged.Key != "bad" {
				t.Errorf("Load: %v, want a *DamagedError of the key", err)
			}
			// One batch: the committer is held while they queue up.
			entered, hold := make(chan struct{}, 2), make(chan struct{})
			s.hooks.afterSync = func(err error) error { entered <- struct{}{}; <-hold; return err }
			var wg sync.WaitGroup
			ask := func(marks ...tokenstore.Mark) *error {
				var err error
				wg.Go(func() { _, err = s.Acquire(context.Background(), marks) })
				return &err
			}
			ask(mark("first", 1))
			<-entered
			lower, higher := ask(mark("bad", 4)), ask(mark("bad", 9))
			both, alone := ask(mark("good", 9), mark("bad", 9)), ask(mark("good", 6))
			waitQueued(s, 4)
			close(hold)
			wg.Wait()
			for what, err := range map[string]error{"lower": *lower, "higher": *higher, "with another key": *both} {
				damaged = nil
				if !errors.As(err, &damaged) || damaged.Key != "bad" || !errors.Is(err, tokenstore.ErrUnavailable) {
					t.Errorf("Acquire, %s: %v, want a *DamagedError of the key", what, err)
				}
			}
			if *alone != nil {
				t.Errorf("another key suffers: %v", *alone)
			}
			wantHighest(t, s, "good", 6)
			s.Clear("bad", tokenstore.Token{Major: 5})
			if err := s.Close(true); err != nil {
				t.Fatal(err)
			}
			r, err := Verify(dir)
			if err != nil || r.Damaged != 1 || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "key bad") {
				t.Errorf("Verify = %+v, %v", r, err)
			}
		})
	}
}

// TestLostKey: a record that is gone is seen by no read, and by Verify.
func TestLostKey(t *testing.T) {
	dir, _ := filled(t)
	if r, err := Verify(dir); err != nil || !r.Sound() || r.Keys != 300 || !r.Clean {
		t.Fatalf("Verify of a sound store = %+v, %v", r, err)
	}
	edit(t, dir, func(keys *bolt.Bucket) error { k, _ := keys.Cursor().First(); return keys.Delete(k) })
	if r, err := Verify(dir); err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "299 records, and there should be 300") {
		t.Errorf("Verify = %+v, %v", r, err)
	}
}

// TestDamagedPages overwrites one page after the other with noise, with zeros
// and with a page of another place. Nothing may crash or hang, and what is
// read is right or an error. Verify must find every page that counts.
func TestDamagedPages(t *testing.T) {
	_, content := filled(t)
	rng := rand.New(rand.NewPCG(3, 4))
	noise := make([]byte, pageSize)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	found := 0
	for page := 2; page*pageSize < highWater(t, content); page++ {
		at := page * pageSize
		headOnly := bytes.Clone(content[at : at+pageSize])
		copy(headOnly[pageHead:], noise)
		for kind, bad := range map[string][]byte{"noise": noise, "zeros": make([]byte, pageSize), "misplaced": content[2*pageSize : 3*pageSize], "entries": headOnly} {
			if bytes.Equal(bad, content[at:at+pageSize]) {
				continue
			}
			name := fmt.Sprintf("page %d, %s", page, kind)
			dir := t.TempDir() // a store that had to give up stays locked
			if err := os.WriteFile(filepath.Join(dir, storeFile), bytes.Join([][]byte{content[:at], bad, content[at+pageSize:]}, nil), 0o600); err != nil {
				t.Fatal(err)
			}
			r, verr := Verify(dir)
			if verr != nil || !r.Sound() {
				found++
			}
			s, err := Open(Options{Path: dir, tuning: tuning{foldAt: 1}}) // folds over the damage
			if err != nil {
				if verr == nil && r.Sound() {
					t.Errorf("%s: Verify finds nothing, and Open: %v", name, err)
				}
				continue
			}
			for i := range 300 {
				key := tokenstore.Key(strings.Repeat("k", 40) + string(rune('a'+i%26)) + string(rune('a'+i/26)))
				rec, ok, err := s.Load(t.Context(), key)
				if err == nil && ok && rec.Highest.Major != uint64(i) {
					t.Errorf("%s: %s reads as %v", name, key, rec.Highest)
				}
				if (err != nil || !ok) && verr == nil && r.Sound() {
					t.Errorf("%s: Verify finds nothing, and Load(%s) = %v, %v", name, key, ok, err)
				}
			}
			// Raises get an answer, whatever it is.
			_, _ = s.Acquire(t.Context(), []tokenstore.Mark{mark("new", 1)})
			_, _ = s.Acquire(t.Context(), []tokenstore.Mark{mark(tokenstore.Key(strings.Repeat("k", 40)+"aa"), 1000)})
			_ = s.Close(false)
		}
	}
	if found == 0 {
		t.Error("Verify found nothing: this run shows nothing")
	}
}

// TestWildReference: a branch that points far outside the file is found by
// Verify, and is an error to whoever follows it, not the end of the process.
func TestWildReference(t *testing.T) {
	dir, content := filled(t)
	order := binary.NativeEndian
	branch := 0
	for page := 2; page*pageSize < highWater(t, content); page++ {
		at := page * pageSize
		if order.Uint16(content[at+8:]) == branchPage {
			branch = page
			order.PutUint64(content[at+pageHead+8:], 1<<30) // the first entry's page
		}
	}
	if branch == 0 {
		t.Fatal("the store has no branch: this run shows nothing")
	}
	if err := os.WriteFile(filepath.Join(dir, storeFile), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(dir); err != nil || r.Sound() || !strings.Contains(r.Problems[0], "page 1073741824 is referred to") {
		t.Errorf("Verify = %+v, %v", r, err)
	}
	s := open(t, dir)
	first, last := tokenstore.Key(strings.Repeat("k", 40)+"aa"), tokenstore.Key(strings.Repeat("k", 40)+"zk")
	_, _, err := s.Load(t.Context(), first)
	wantUnknown(t, err)
	_, err = s.Acquire(t.Context(), []tokenstore.Mark{mark(first, 1000)})
	wantUnknown(t, err)
	acquire(t, s, mark(last, 1000)) // under another branch entry
	wantHighest(t, s, last, 1000)
}

// TestCutWhileOpen: a file that is cut while it is mapped makes memory faults
// of its reads; they are errors.
func TestCutWhileOpen(t *testing.T) {
	dir, _ := filled(t)
	s := open(t, dir)
	if err := os.Truncate(filepath.Join(dir, storeFile), 2*pageSize); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Load(t.Context(), tokenstore.Key(strings.Repeat("k", 40)+"aa"))
	wantUnknown(t, err)
	_, err = s.Acquire(t.Context(), []tokenstore.Mark{mark("new", 1)})
	wantUnknown(t, err)
}
