package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// TestOneBatch: the requests of one batch are decided in the order in which
// they came, each on its own, and a refusal that rests on a mark of the same
// batch is told after its sync.
func TestOneBatch(t *testing.T) {
	s := open(t, t.TempDir())
	acquire(t, s, mark("k", 5))
	entered, hold := make(chan struct{}, 9), make(chan struct{})
	syncs := 0
	s.hooks.afterSync = func(err error) error { syncs++; entered <- struct{}{}; <-hold; return err }
	var answers [6]error
	var wg sync.WaitGroup
	ask := func(i int, marks ...tokenstore.Mark) {
		wg.Go(func() { _, answers[i] = s.Acquire(context.Background(), marks) })
		if i > 0 {
			waitQueued(s, int64(i))
		}
	}
	ask(0, mark("first", 1))
	<-entered
	ask(1, mark("k", 6))
	ask(2, mark("k", 9), mark("new", 1))
	ask(3, mark("k", 7), mark("none", 1)) // stale by the one before it
	ask(4, mark("k", 9))
	ask(5, mark("k", 4)) // stale by the disk, but in the same batch
	hold <- struct{}{}
	<-entered
	for i := 1; i < len(answers); i++ {
		if answers[i] != nil {
			t.Errorf("request %d was answered before the sync of its batch", i)
		}
	}
	hold <- struct{}{}
	wg.Wait()
	if syncs != 2 {
		t.Errorf("%d syncs for one caller and then five, want 2", syncs)
	}
	for i, err := range answers {
		var stale *tokenstore.StaleError
		switch want := i == 3 || i == 5; {
		case want && (!errors.As(err, &stale) || stale.Highest.Major != 9):
			t.Errorf("request %d: %v, want it stale by 9", i, err)
		case !want && err != nil:
			t.Errorf("request %d: %v", i, err)
		}
	}
	wantHighest(t, s, "k", 9)
	wantHighest(t, s, "new", 1)
	if _, ok, err := s.Load(t.Context(), "none"); ok || err != nil {
		t.Errorf("a refused request left a record (%v)", err)
	}
	if n := s.Keys(); n != 3 {
		t.Errorf("Keys = %d, want 3", n)
	}
}

// TestRefusalNeedsDisk: where the batch fails, nobody is told stale by it.
func TestRefusalNeedsDisk(t *testing.T) {
	s := open(t, t.TempDir())
	acquire(t, s, mark("k", 5))
	entered, hold := make(chan struct{}, 9), make(chan struct{})
	s.hooks.afterSync = func(err error) error {
		entered <- struct{}{}
		<-hold
		return err
	}
	var answers [3]error
	var wg sync.WaitGroup
	for i, m := range []tokenstore.Mark{mark("first", 1), mark("k", 9), mark("k", 7)} {
		wg.Go(func() { _, answers[i] = s.Acquire(context.Background(), []tokenstore.Mark{m}) })
		if i == 0 {
			<-entered
		} else {
			waitQueued(s, int64(i))
		}
	}
	s.hooks.afterSync = func(error) error { return errors.New("the sync failed") }
	hold <- struct{}{}
	wg.Wait()
	wantUnknown(t, answers[1])
	wantUnknown(t, answers[2])
}

// TestManyMarks: more records than a batch takes go in several.
func TestManyMarks(t *testing.T) {
	s := open(t, t.TempDir())
	entered, hold := make(chan struct{}, 99), make(chan struct{}, 99)
	s.hooks.afterSync = func(err error) error { entered <- struct{}{}; <-hold; return err }
	var wg sync.WaitGroup
	ask := func(name string, n int) {
		var marks []tokenstore.Mark
		for i := range n {
			marks = append(marks, mark(tokenstore.Key(fmt.Sprint(name, i)), 1))
		}
		wg.Go(func() {
			if _, err := s.Acquire(context.Background(), marks); err != nil {
				t.Error(err)
			}
		})
	}
	ask("first", 1)
	<-entered
	for i := range 3 {
		ask(fmt.Sprint("many", i, "/"), 400)
	}
	waitQueued(s, 3)
	for range 3 {
		hold <- struct{}{}
	}
	wg.Wait()
	if n := s.Keys(); n != 1201 {
		t.Errorf("Keys = %d, want 1201", n)
	}
	if n := len(entered); n != 2 {
		t.Errorf("1,200 records took %d frames, want 2", n)
	}
	s.hooks.afterSync = nil
}

// TestClear: a clear is written by itself after a while, or with the next
// raise, and not where it says nothing of the highest token.
func TestClear(t *testing.T) {
	s := open(t, t.TempDir())
	acquire(t, s, mark("alone", 1), mark("riding", 1), mark("lower", 2))
	isClear := func(key tokenstore.Key) bool {
		rec, ok, err := s.Load(t.Context(), key)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		return rec.Clear
	}
	s.Clear("riding", tokenstore.Token{Major: 1})
	s.Clear("lower", tokenstore.Token{Major: 1})
	acquire(t, s, mark("k", 1))
	if !isClear("riding") {
		t.Error("a clear did not ride with the next raise")
	}
	s.Clear("alone", tokenstore.Token{Major: 1})
	for until := time.Now().Add(10 * time.Second); !isClear("alone"); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("a clear that nobody takes along is not written")
		}
	}
	if isClear("lower") {
		t.Error("a clear of a lower token counts for the highest")
	}
}

// TestClearsBounded: clears that cannot be written take a bounded memory.
func TestClearsBounded(t *testing.T) {
	var c clears
	for i := range 3 * maxClears {
		c.add(tokenstore.Key(fmt.Sprint(i)), tokenstore.Token{}, func() {})
	}
	total := 0
	for {
		taken := c.take(maxBatch, func() {})
		if len(taken) > maxBatch {
			t.Fatalf("took %d at once", len(taken))
		}
		if len(taken) == 0 {
			break
		}
		total += len(taken)
	}
	c.stop()
	if total != maxClears {
		t.Errorf("%d clears waited, want %d", total, maxClears)
	}
}

// TestClearsAskAgain: clears that wait are asked for, also where the call for
// them came and nothing could be taken, or what it was for had been forgotten.
func TestClearsAskAgain(t *testing.T) {
	later := func() { time.Sleep(clearDelay + 1); synctest.Wait() }
	for name, misses := range map[string]func(c *clears, flush func()){
		"forgotten": func(c *clears, flush func()) {
			c.add("gone", tokenstore.Token{}, flush)
			c.drop("gone")
			later()
			c.take(maxBatch, flush)
			c.add("k", tokenstore.Token{}, flush)
		},
		"a full batch": func(c *clears, flush func()) {
			c.add("k", tokenstore.Token{}, flush)
			later()
			c.take(0, flush)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c clears
				var calls atomic.Int64
				misses(&c, func() { calls.Add(1) })
				if n := calls.Load(); n != 1 {
					t.Fatalf("called %d times before, want once", n)
				}
				later()
				n := calls.Load()
				if taken := c.take(maxBatch, nil); n != 2 || len(taken) != 1 {
					t.Errorf("called %d times, and %d wait: want one, and a second call for it", n, len(taken))
				}
			})
		})
	}
}
