package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

func forget(t testing.TB, s *Store, key tokenstore.Key) {
	t.Helper()
	rec, _, err := s.Load(t.Context(), key)
	if err == nil {
		err = s.Forget(t.Context(), key, rec)
	}
	if err != nil {
		t.Fatalf("Forget(%s): %v", key, err)
	}
}

// listed reads all pages.
func listed(t testing.TB, s *Store, limit int) map[tokenstore.Key]uint64 {
	t.Helper()
	all, after := map[tokenstore.Key]uint64{}, tokenstore.Key("")
	for {
		page, next, err := s.List(context.Background(), "", after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page {
			if _, twice := all[l.Key]; twice || l.Key <= after || l.Damaged != nil {
				t.Fatalf("%s stands behind %s: twice %v, damaged %v", l.Key, after, twice, l.Damaged)
			}
			all[l.Key] = l.Record.Highest.Major
		}
		if after = next; next == "" {
			return all
		}
	}
}

// TestForgetAtEachStep raises, forgets and raises again lower, in a store that
// folds all the time, and takes a copy at each step of a rotation and a fold: in
// each there is exactly what was told of, after a kill as after a clean stop.
func TestForgetAtEachStep(t *testing.T) {
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	told := map[tokenstore.Key]uint64{}
	var all []crash
	seen := map[string]int{}
	reached := func(step string) {
		mu.Lock()
		defer mu.Unlock()
		if seen[step]++; seen[step] <= 8 {
			all = append(all, crash{step, copyStore(t, dir), maps.Clone(told)})
		}
	}
	forgot := 0
	for life := range 3 {
		s := openWith(t, dir, tuning{foldAt: 8, foldChunk: 3}, hooks{reached: reached})
		if got := listed(t, s, 3); !maps.Equal(got, told) {
			t.Fatalf("life %d begins with %v, want %v", life, got, told)
		}
		for range 300 {
			key := tokenstore.Key(fmt.Sprint("k", rnd.IntN(25)))
			mu.Lock()
			n, here := told[key]
			mu.Unlock()
			if here && rnd.IntN(3) == 0 {
				forgot++
				forget(t, s, key)
				mu.Lock()
				delete(told, key)
				mu.Unlock()
				continue
			}
			if !here {
				n = uint64(rnd.IntN(3)) // lower than what was forgotten
			}
			acquire(t, s, mark(key, n+1))
			mu.Lock()
			told[key] = n + 1
			mu.Unlock()
		}
		if got := listed(t, s, 4); !maps.Equal(got, told) || s.Keys() != int64(len(told)) {
			t.Fatalf("life %d: %d keys counted, listed %v, want %v", life, s.Keys(), got, told)
		}
		if err := s.Close(life != 1); err != nil {
			t.Fatal(err)
		}
	}
	if forgot < 100 || seen["part folded"] < 5 {
		t.Fatalf("%d keys were forgotten, %v: this has shown nothing", forgot, seen)
	}
	for i, c := range all {
		t.Run(fmt.Sprint(i, " ", c.step), func(t *testing.T) { wantForgotten(t, c) })
	}
}

// wantForgotten allows for the one change that was under way, or just not told of
// yet, at the copy.
func wantForgotten(t *testing.T, c crash) {
	before, err := Verify(c.dir)
	if err != nil || !before.Sound() {
		t.Fatalf("Verify = %+v, %v", before, err)
	}
	inDump := int64(len(recordsOf(t, exported(t, c.dir))))
	for range 2 {
		s := open(t, c.dir)
		got := listed(t, s, 3)
		differ := 0
		for _, key := range slices.Concat(slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(c.told))) {
			if n, here := got[key]; n != c.told[key] || !here {
				differ++
			}
		}
		if differ > 2 || s.Keys() != int64(len(got)) || s.Keys() != before.Keys || s.Keys() != inDump {
			t.Errorf("%d keys counted, %d verified, listed %v, want %v", s.Keys(), before.Keys, got, c.told)
		}
		if err := s.Close(true); err != nil {
			t.Fatal(err)
		}
		if r, err := Verify(c.dir); err != nil || !r.Sound() || r.Keys != before.Keys {
			t.Fatalf("Verify after a clean stop = %+v, %v", r, err)
		}
	}
}

// What was said of a token before its key was forgotten is not said of the same
// token when it comes again: older writes may be in flight below that one.
func TestForgetDropsClear(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { _ = s.Close(false) }()
	acquire(t, s, mark("k", 7))
	rec, _, err := s.Load(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	b := newBatch(s.view().get, &s.leases, rec.RaisedAt, 1)
	if err := b.forget("k", rec); err != nil {
		t.Fatal(err)
	}
	if err := b.decide([]tokenstore.Mark{mark("k", 7)}); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("raised in the batch that forgets it: %v", err)
	}
	b.clear("k", tokenstore.Token{Major: 7})
	if s := b.slots["k"]; s.ok || s.rec != (tokenstore.Record{}) {
		t.Errorf("the slot of a forgotten key: %+v", s)
	}
	// A batch that is full takes no clear with it.
	s.group.stop()
	s.clears.add("k", tokenstore.Token{Major: 7}, func() {})
	full := make([]tokenstore.Mark, maxBatch-1)
	for i := range full {
		full[i] = mark(tokenstore.Key(fmt.Sprint("full", i)), 1)
	}
	gone := newRequest([]tokenstore.Mark{{Key: "k"}})
	gone.forget = &rec
	for _, batch := range [][]*request{{newRequest(full), gone}, {newRequest([]tokenstore.Mark{mark("k", 7)})}, {}} {
		s.commit(batch)
		for _, r := range batch {
			if err := <-r.done; err != nil {
				t.Fatal(err)
			}
		}
	}
	if rec, ok, err := s.Load(t.Context(), "k"); err != nil || !ok || rec.Clear {
		t.Errorf("Load = %+v, %v, %v: the clear of before the removal counts", rec, ok, err)
	}
}

// A removal whose caller gives up while it is in a batch is waited for: the
// caller has to know whether the record is there.
func TestForgetIsKnown(t *testing.T) {
	syncing, sync := make(chan struct{}, 9), make(chan struct{})
	s := openWith(t, t.TempDir(), tuning{}, hooks{})
	acquire(t, s, mark("k", 7))
	rec, _, _ := s.Load(t.Context(), "k")
	s.hooks.afterSync = func(err error) error { syncing <- struct{}{}; <-sync; return err }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Forget(ctx, "k", rec) }()
	<-syncing
	cancel()
	select {
	case err := <-done:
		t.Fatalf("Forget = %v while the sync hangs", err)
	default:
	}
	// Another one stands in the queue: it is taken back, and nothing was done.
	if err := s.Forget(ctx, "k", rec); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("Forget = %v", err)
	}
	close(sync)
	if err := <-done; err != nil {
		t.Errorf("Forget = %v", err)
	}
	if _, ok, err := s.Load(t.Context(), "k"); ok || err != nil {
		t.Errorf("Load = %v, %v", ok, err)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
}

// A key that was forgotten in a log that could not be folded, and made again in
// the next, is as new as it was in the file.
func TestForgottenInBoth(t *testing.T) {
	for _, inFile := range []bool{true, false} {
		r := recent{frozen: newFrozen(map[tokenstore.Key]raised{"k": {added: !inFile, gone: true}}, leaseState{}, 1, 1)}
		r.put([]*slot{{key: "k", ok: true, added: true}})
		all, _ := r.all(leaseState{})
		if e := all["k"]; e.added == inFile || e.gone {
			t.Errorf("in the file %v: %+v", inFile, e)
		}
	}
}

// TestDamagedForget: entries of a log that no store wrote.
func TestDamagedForget(t *testing.T) {
	rec := tokenstore.Record{Highest: tokenstore.Token{Major: 1}}
	added := func(b []byte) []byte { return appendEntry(b, "k", rec, true) }
	again := func(b []byte) []byte { return appendEntry(b, "k", rec, false) }
	gone := func(b []byte) []byte { return appendGone(b, "k") }
	for name, c := range map[string]struct {
		steps []func([]byte) []byte
		ok    bool
	}{
		"forgotten":            {[]func([]byte) []byte{gone}, true},
		"made and forgotten":   {[]func([]byte) []byte{added, gone}, true},
		"and made again":       {[]func([]byte) []byte{added, gone, added}, true},
		"forgotten twice":      {[]func([]byte) []byte{gone, gone}, false},
		"goes on afterwards":   {[]func([]byte) []byte{gone, again}, false},
		"new twice":            {[]func([]byte) []byte{added, added}, false},
		"sealed with a record": {[]func([]byte) []byte{func(b []byte) []byte { b = again(b); b[frameHead] = goneFlag; return b }}, false},
		"new and gone at once": {[]func([]byte) []byte{func(b []byte) []byte { b = gone(b); b[frameHead] |= addedFlag; return b }}, false},
	} {
		r := replay{records: map[tokenstore.Key]raised{}}
		var err error
		for _, step := range c.steps {
			if err == nil {
				err = eachEntry(step(beginFrame(nil))[frameHead:], r.take)
			}
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
