package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// holdFold makes hooks that hold a fold before its first transaction until
// release is called; due gets a value as it comes there.
func holdFold(t *testing.T) (h hooks, due chan struct{}, release func()) {
	due, hold := make(chan struct{}, 99), make(chan struct{})
	release = sync.OnceFunc(func() { close(hold) })
	h.reached = func(step string) {
		if step == "fold due" {
			due <- struct{}{}
			<-hold
		}
	}
	return h, due, release
}

// waitFolded returns when no fold is due.
func waitFolded(t testing.TB, s *Store) {
	t.Helper()
	for range 1000 {
		tried, _ := s.recent.trial()
		if tried == nil {
			return
		}
		select {
		case <-tried:
		case <-time.After(10 * time.Second):
			t.Fatal("no fold goes through")
		}
	}
	t.Fatal("a thousand folds failed")
}

// TestFoldEndsInLoad: a Load whose transaction begins before the fold of its
// key ends must not look for the key among the recent records after that.
func TestFoldEndsInLoad(t *testing.T) {
	h, due, release := holdFold(t)
	t.Cleanup(release)
	inView := 0
	var s *Store
	h.inView = func() {
		if inView++; inView == 2 {
			release()
			waitFolded(t, s)
		}
	}
	// bbolt cannot map a file anew while somebody reads: this one has room.
	dir, _ := filled(t)
	s = openWith(t, dir, tuning{foldAt: 1}, h)
	acquire(t, s, mark("k", 5)) // its own look at the file is the first
	s.group.poke()
	<-due
	wantHighest(t, s, "k", 5)
	if inView != 1 {
		t.Errorf("a transaction was begun %d times, want 1: the key is among the recent ones", inView)
	}
	release()
	waitFolded(t, s)
	wantHighest(t, s, "k", 5)
	if records, _ := s.recent.maps(); inView != 2 || len(records) > 0 {
		t.Errorf("the key was not read from the file: this run shows nothing")
	}
}

// TestFoldEndsInBatch is the same for the committer, which reads all keys of a
// batch in one transaction: a lower token would be taken for the first one.
func TestFoldEndsInBatch(t *testing.T) {
	h, due, release := holdFold(t)
	t.Cleanup(release)
	ended := false
	var s *Store
	armed := false
	h.inView = func() {
		if armed {
			armed, ended = false, true
			release()
			waitFolded(t, s)
		}
	}
	// bbolt cannot map a file anew while somebody reads: this one has room.
	dir, _ := filled(t)
	s = openWith(t, dir, tuning{foldAt: 1}, h)
	acquire(t, s, mark("k", 5))
	s.group.poke()
	<-due
	armed = true
	_, err := s.Acquire(t.Context(), []tokenstore.Mark{mark("new", 1), mark("k", 4)})
	var stale *tokenstore.StaleError
	if !errors.As(err, &stale) || stale.Highest.Major != 5 {
		t.Errorf("Acquire of a lower token = %v, want it stale by 5", err)
	}
	if !ended {
		t.Error("no fold ended in the batch: this run shows nothing")
	}
	if n := s.Keys(); n != 301 {
		t.Errorf("Keys = %d, want 301", n)
	}
}

// TestFoldWaited: where raises come faster than they can be folded they wait
// for the fold; the wait ends with the fold, with the store, or with its use.
func TestFoldWaited(t *testing.T) {
	for name, end := range map[string]func(s *Store, release func()){
		"folded": func(_ *Store, release func()) { release() },
		"closed": func(s *Store, release func()) {
			go func() { _ = s.Close(false) }()
			<-s.closed
		},
		"failed": func(s *Store, _ func()) { s.poison(errors.New("some other sync failed")) },
	} {
		t.Run(name, func(t *testing.T) {
			h, due, release := holdFold(t)
			s := openWith(t, t.TempDir(), tuning{foldAt: 2, most: 2}, h)
			t.Cleanup(release)
			acquire(t, s, mark("a", 1), mark("b", 1))
			for i := range 4 {
				acquire(t, s, mark(tokenstore.Key(fmt.Sprint(i)), 1))
			}
			<-due
			answer := make(chan error, 1)
			go func() {
				_, err := s.Acquire(context.Background(), []tokenstore.Mark{mark("waits", 1)})
				answer <- err
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := s.Acquire(ctx, []tokenstore.Mark{mark("gives up", 1)})
			wantUnknown(t, err)
			if len(answer) > 0 {
				t.Fatalf("a raise got an answer while there was no room: %v", <-answer)
			}
			wantHighest(t, s, "a", 1) // reads go on
			end(s, release)
			if err := <-answer; name == "folded" && err != nil {
				t.Error(err)
			} else if name != "folded" {
				wantUnknown(t, err)
			}
		})
	}
}

// TestNextLogRefused: where the next log cannot be begun the one in use goes on
// while it has room; then raises are refused, with the reason, until it can.
func TestNextLogRefused(t *testing.T) {
	dir := t.TempDir()
	s := openWith(t, dir, tuning{foldAt: 2, most: 2, pause: 10 * time.Millisecond}, hooks{})
	obstacle := filepath.Join(dir, logName(2))
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		acquire(t, s, mark(tokenstore.Key(fmt.Sprint(i)), 1))
	}
	_, err := s.Acquire(t.Context(), []tokenstore.Mark{mark("k", 1)})
	wantUnknown(t, err)
	if !errors.Is(err, fs.ErrExist) || s.Err() != nil {
		t.Errorf("Acquire = %v, failed = %v; want the reason, and a store that goes on", err, s.Err())
	}
	wantHighest(t, s, "0", 1)
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(until); time.Sleep(time.Millisecond) {
		_, err = s.Acquire(t.Context(), []tokenstore.Mark{mark("k", 1)})
	}
	waitFolded(t, s)
	if n := s.Keys(); err != nil || n != 5 || s.log.generation < 2 {
		t.Errorf("Acquire = %v, %d keys, generation %d", err, n, s.log.generation)
	}
}

// TestClearsWaitForRoom: clears that are due while there is no room ask again.
func TestClearsWaitForRoom(t *testing.T) {
	dir := t.TempDir()
	s := openWith(t, dir, tuning{foldAt: 1, most: 1, pause: time.Hour}, hooks{})
	if err := os.Mkdir(filepath.Join(dir, logName(2)), 0o700); err != nil {
		t.Fatal(err)
	}
	acquire(t, s, mark("k", 1))
	s.group.stop()
	if err := s.room(); err == nil {
		t.Fatal("there is room: this run shows nothing")
	}
	s.clears.add("k", tokenstore.Token{Major: 1}, func() {})
	s.commit(nil)
	poked := func() bool {
		s.group.mu.Lock()
		defer s.group.mu.Unlock()
		return s.group.poked
	}
	for until := time.Now().Add(10 * time.Second); !poked(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("a clear was due while there was no room, and nobody asks for it again")
		}
	}
}

// TestFoldOverDamage: a fold that meets a damaged page loses nothing, says so
// once, and goes through when the page is whole again.
func TestFoldOverDamage(t *testing.T) {
	dir, content := filled(t)
	h, due, release := holdFold(t)
	core, logs := observer.New(zap.InfoLevel)
	s, err := Open(Options{Path: dir, Logger: zap.New(core), tuning: tuning{foldAt: 1, pause: 10 * time.Microsecond}, hooks: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { release(); _ = s.Close(false) })
	acquire(t, s, mark("new", 7))
	s.group.poke()
	<-due
	file, err := os.OpenFile(filepath.Join(dir, storeFile), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	was, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	for at := 2 * pageSize; at < highWater(t, content); at += pageSize {
		if _, err := file.WriteAt(make([]byte, pageHead), int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	release()
	for range 3 {
		tried, _ := s.recent.trial()
		<-tried
	}
	if _, failed := s.recent.trial(); failed == nil || s.Err() != nil {
		t.Fatalf("a fold over damaged pages: %v, failed = %v", failed, s.Err())
	}
	wantHighest(t, s, "new", 7)
	if _, err := file.WriteAt(was[2*pageSize:], 2*pageSize); err != nil {
		t.Fatal(err)
	}
	waitFolded(t, s)
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	if n, m := logs.FilterMessageSnippet("cannot be folded").Len(), logs.FilterMessageSnippet("folded into the token store's file again").Len(); n != 1 || m != 1 {
		t.Errorf("told %d times that it failed and %d times that it goes on, want 1 and 1", n, m)
	}
	if r, err := Verify(dir); err != nil || !r.Sound() || r.Keys != 301 {
		t.Errorf("Verify = %+v, %v", r, err)
	}
}

// TestFoldSorted: bbolt takes minutes for many keys that are not sorted. A fold
// takes them in the order of the file, in parts, and the last part alone
// counts them.
func TestFoldSorted(t *testing.T) {
	dir := t.TempDir()
	var s *Store
	var parts []int
	s = openWith(t, dir, tuning{foldAt: 50, foldChunk: 20}, hooks{reached: func(step string) {
		if step != "part folded" && step != "folded" {
			return
		}
		_ = s.db.View(func(tx *bolt.Tx) error {
			var keys []string
			_ = tx.Bucket(keysBucket).ForEach(func(k, _ []byte) error { keys = append(keys, string(k)); return nil })
			parts = append(parts, len(keys))
			if want := map[bool]uint64{true: 50}[step == "folded"]; tx.Bucket(keysBucket).Sequence() != want {
				t.Errorf("%s: the count is %d, want %d", step, tx.Bucket(keysBucket).Sequence(), want)
			}
			if !slices.IsSorted(keys) || keys[len(keys)-1] != fmt.Sprintf("%03d", len(keys)-1) {
				t.Errorf("after %s the file has %v", step, keys)
			}
			return nil
		})
	}})
	for i := range 50 {
		acquire(t, s, mark(tokenstore.Key(fmt.Sprintf("%03d", i*37%50)), 1))
	}
	acquire(t, s, mark("zzz", 1)) // before it, the log is long enough for the next one
	waitFolded(t, s)
	if err := s.Close(false); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(parts, []int{20, 40, 50}) {
		t.Errorf("the file had %v keys after each part, want 20, 40, 50", parts)
	}
}
