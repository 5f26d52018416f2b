package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// filled makes a store of some keys, stopped cleanly, and returns its
// directory and the content of its file.
func filled(t *testing.T) (dir string, content []byte) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir)
	var marks []tokenstore.Mark
	for i := range 300 {
		marks = append(marks, mark(tokenstore.Key(strings.Repeat("k", 40)+string(rune('a'+i%26))+string(rune('a'+i/26))), uint64(i)))
	}
	acquire(t, s, marks...)
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	return dir, content
}

// TestOpenRefuses: what stands where a store should be is never opened when it
// is not one, and never written over.
func TestOpenRefuses(t *testing.T) {
	_, content := filled(t)
	change := func(at int, b byte) []byte {
		c := slices.Clone(content)
		c[at] ^= b
		return c
	}
	otherBolt := func(fill func(tx *bolt.Tx) error) []byte {
		path := filepath.Join(t.TempDir(), "x")
		db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: pageSize})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(fill), db.Close()); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, tc := range []struct {
		name    string
		content []byte
		want    error
		says    string
	}{
		{"empty", nil, tokenstore.ErrForeign, "restore it from a backup"},
		{"one byte", content[:1], tokenstore.ErrForeign, "move the file away"},
		{"one header", content[:pageSize], ErrDamaged, "cut short"},
		{"cut in half", content[:len(content)/2], ErrDamaged, "cut short"},
		{"last page cut", content[:highWater(t, content)-1], ErrDamaged, "cut short"},
		{"text", []byte(strings.Repeat("no store ", 5000)), tokenstore.ErrForeign, "does not begin like"},
		{"zeros", make([]byte, len(content)), tokenstore.ErrForeign, "does not begin like"},
		{"first header damaged", change(headerAt+20, 1), ErrDamaged, "header"},
		{"second header damaged", change(pageSize+headerAt+20, 1), ErrDamaged, "header"},
		{"first header overwritten", change(headerAt, 1), ErrDamaged, "header"},
		{"another program's", otherBolt(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err }), tokenstore.ErrForeign, "has not the parts"},
		{"a later version", otherBolt(func(tx *bolt.Tx) error {
			for _, name := range [][]byte{keysBucket, rulesBucket, aboutBucket} {
				if _, err := tx.CreateBucket(name); err != nil {
					return err
				}
			}
			return putSealed(tx.Bucket(aboutBucket), formatKey, []byte("fenceproxy store 2"))
		}), tokenstore.ErrForeign, "open it with the version that wrote it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, storeFile)
			if err := os.WriteFile(path, tc.content, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, create := range []bool{true, false} {
				s, err := Open(Options{Path: dir, Create: create})
				if err == nil {
					_ = s.Close(false)
					t.Fatal("it was opened")
				}
				if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error = %v, want %v that says %q", err, tc.want, tc.says)
				}
			}
			if _, err := Verify(dir); !errors.Is(err, tc.want) {
				t.Errorf("Verify: %v, want %v", err, tc.want)
			}
			if now, err := os.ReadFile(path); err != nil || !slices.Equal(now, tc.content) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

// highWater is where the used part of a store's file ends.
func highWater(t *testing.T, content []byte) int {
	t.Helper()
	h, err := readHeaders(strings.NewReader(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	return int(h.pages) * pageSize
}

func TestMissing(t *testing.T) {
	empty := t.TempDir()
	for name, dir := range map[string]string{"no directory": filepath.Join(empty, "none"), "an empty directory": empty} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(Options{Path: dir})
			if !errors.Is(err, tokenstore.ErrMissing) || !strings.Contains(err.Error(), "mount the volume") {
				t.Errorf("Open: %v, want ErrMissing", err)
			}
			if _, err := Verify(dir); !errors.Is(err, tokenstore.ErrMissing) {
				t.Errorf("Verify: %v, want ErrMissing", err)
			}
		})
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("files were made where no store may be: %v, %v", left, err)
	}
}

// TestCreate: a new store is warned of, and what an interrupted creation left
// is no store.
func TestCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, newFile), []byte("half a store"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: dir}); !errors.Is(err, tokenstore.ErrMissing) {
		t.Fatalf("half a store: %v, want ErrMissing", err)
	}
	core, logs := observer.New(zap.WarnLevel)
	for life, created := range []bool{true, false} {
		s, err := Open(Options{Path: dir, Create: true, Logger: zap.New(core)})
		if err != nil {
			t.Fatal(err)
		}
		if s.Created() != created {
			t.Errorf("life %d: Created = %v", life, s.Created())
		}
		if err := s.Close(true); err != nil {
			t.Fatal(err)
		}
	}
	if n := logs.FilterMessageSnippet("may not be mounted").Len(); n != 1 {
		t.Errorf("%d warnings of a new store, want 1", n)
	}
	if _, err := os.Stat(filepath.Join(dir, newFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary file is still there: %v", err)
	}
}

// TestLocked: one use at a time, in the same process too, even where somebody
// has removed the lock file, and never a wait.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	wantLocked := func() {
		t.Helper()
		for name, use := range map[string]func() error{
			"Open":   func() error { _, err := Open(Options{Path: dir, Create: true}); return err },
			"Verify": func() error { _, err := Verify(dir); return err },
		} {
			if err := use(); !errors.Is(err, tokenstore.ErrLocked) || !strings.Contains(err.Error(), "stop that process") {
				t.Errorf("%s: %v, want ErrLocked", name, err)
			}
		}
	}
	wantLocked()
	if err := os.Remove(filepath.Join(dir, lockFile)); err != nil {
		t.Fatal(err)
	}
	wantLocked()
	acquire(t, s, mark("k", 1))
	if err := s.Close(false); err != nil {
		t.Fatal(err)
	}
	wantHighest(t, open(t, dir), "k", 1)
}

// TestLockAlone: the lock comes before there is a file that bbolt could lock,
// or two processes would both make a store.
func TestLockAlone(t *testing.T) {
	dir := t.TempDir()
	f, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: dir, Create: true}); !errors.Is(err, tokenstore.ErrLocked) {
		t.Errorf("Open: %v, want ErrLocked", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

// TestRules: a rule whose keys are made otherwise stops the start, unless it
// is named; the record of the others, and of rules that have gone, stays.
func TestRules(t *testing.T) {
	dir := t.TempDir()
	for _, life := range []struct {
		name    string
		rules   tokenstore.Rules
		accept  []string
		refused []string
		changed []string
		clean   bool
	}{
		{name: "first", rules: tokenstore.Rules{"a": "1", "b": "1", "c": "1"}, clean: true},
		{name: "the same", rules: tokenstore.Rules{"a": "1", "b": "1", "c": "1"}, clean: true},
		{name: "two changed, none named", rules: tokenstore.Rules{"b": "2", "a": "2", "c": "1"}, refused: []string{"a", "b"}},
		{name: "two changed, one named", rules: tokenstore.Rules{"b": "2", "a": "2", "c": "1"}, accept: []string{"b", "c"}, refused: []string{"a"}},
		{name: "nothing was remembered of a refusal", rules: tokenstore.Rules{"a": "1", "b": "1", "c": "1"}, clean: true},
		{name: "one gone, one new", rules: tokenstore.Rules{"a": "1", "d": "1"}, clean: true},
		{name: "the one that had gone is back, changed", rules: tokenstore.Rules{"b": "2"}, refused: []string{"b"}},
		{name: "no rules are compared", clean: true},
		{name: "changed and named, after a clean stop", rules: tokenstore.Rules{"a": "2"}, accept: []string{"a"}, changed: []string{"a"}},
		{name: "remembered, after a crash", rules: tokenstore.Rules{"a": "2"}},
		{name: "changed and named, after a crash", rules: tokenstore.Rules{"a": "3"}, accept: []string{"a"}, changed: []string{"a"}},
		{name: "still told after the next crash", rules: tokenstore.Rules{"a": "3", "d": "1"}, changed: []string{"a"}},
		{name: "and the one after that", rules: tokenstore.Rules{"a": "3"}, changed: []string{"a"}, clean: true},
		{name: "not after a clean stop", rules: tokenstore.Rules{"a": "3"}, clean: true},
	} {
		s, err := Open(Options{Path: dir, Create: true, Rules: life.rules, AcceptChanged: life.accept})
		if life.refused != nil {
			var changed *tokenstore.ChangedRulesError
			if !errors.As(err, &changed) || !slices.Equal(changed.Rules, life.refused) {
				t.Fatalf("%s: %v, want a refusal of %v", life.name, err, life.refused)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", life.name, err)
		}
		if !slices.Equal(s.Changed(), life.changed) {
			t.Errorf("%s: Changed = %v, want %v", life.name, s.Changed(), life.changed)
		}
		if err := s.Close(life.clean); err != nil {
			t.Fatal(err)
		}
	}
	// A refused start must leave the marker where it was.
	if _, err := Open(Options{Path: dir, Rules: tokenstore.Rules{"a": "9"}}); err == nil {
		t.Fatal("a changed rule was accepted")
	}
	s := open(t, dir)
	if s.Recovered() {
		t.Error("a refused start erased the marker of a clean stop")
	}
}

// The settle time of a life that crashed holds for the next one too.
func TestSettle(t *testing.T) {
	dir := t.TempDir()
	for i, life := range []struct {
		now, want time.Duration
		clean     bool
	}{
		{now: 30 * time.Second, want: 30 * time.Second}, // and a crash
		{now: time.Second, want: 30 * time.Second},
		{now: time.Minute, want: time.Minute},
		{now: time.Second, want: time.Minute, clean: true},
		{now: time.Second, want: time.Second, clean: true},
	} {
		s, err := Open(Options{Path: dir, Create: true, Settle: life.now})
		if err != nil {
			t.Fatal(err)
		}
		if s.Settle() != life.want {
			t.Errorf("life %d: Settle = %v, want %v", i, s.Settle(), life.want)
		}
		if err := s.Close(life.clean); err != nil {
			t.Fatal(err)
		}
	}
}

// That writes may have passed of which no record tells is remembered until a
// clean stop, whatever the lives in between may let pass.
func TestUnordered(t *testing.T) {
	dir := t.TempDir()
	for i, life := range []struct{ now, want, clean bool }{
		{now: false, want: false},
		{now: true, want: true}, // and a crash
		{now: false, want: true},
		{now: false, want: true, clean: true},
		{now: false, want: false},
		{now: true, want: true, clean: true},
		{now: true, want: true, clean: true},
		{now: false, want: false, clean: true},
	} {
		s, err := Open(Options{Path: dir, Create: true, Unordered: life.now})
		if err != nil {
			t.Fatal(err)
		}
		if s.Unordered() != life.want {
			t.Errorf("life %d: Unordered = %v, want %v", i, s.Unordered(), life.want)
		}
		if err := s.Close(life.clean); err != nil {
			t.Fatal(err)
		}
	}
}
