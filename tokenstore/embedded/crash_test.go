package embedded

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// crash is what a kill at some step would leave, and what was told of as on
// the disk before it.
type crash struct {
	step string
	dir  string
	told map[tokenstore.Key]uint64
}

// crashes runs a store that rotates and folds often, stops it cleanly, and
// returns what a kill at each step would have left.
func crashes(t *testing.T) []crash {
	dir := t.TempDir()
	var mu sync.Mutex
	told := map[tokenstore.Key]uint64{}
	var all []crash
	seen := map[string]int{}
	reached := func(step string) {
		mu.Lock()
		defer mu.Unlock()
		if seen[step]++; seen[step] > 5 && step != "marker written" {
			return
		}
		all = append(all, crash{step, copyStore(t, dir), maps.Clone(told)})
	}
	for life := range uint64(3) {
		s := openWith(t, dir, tuning{foldAt: 8, foldChunk: 3}, hooks{reached: reached})
		for i := range uint64(40) {
			a, b := tokenstore.Key(fmt.Sprint("a", i%20)), tokenstore.Key(fmt.Sprint("b", life, i%30))
			often := tokenstore.Key(fmt.Sprint("often", life, i/10)) // new, and raised again, in one log
			n := life*100 + i + 1
			acquire(t, s, mark(a, n), mark(b, n), mark(often, n))
			mu.Lock()
			told[a], told[b], told[often] = n, n, n
			mu.Unlock()
			if i%10 == 0 {
				waitFolded(t, s)
			}
		}
		if err := s.Close(life != 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []string{"log made", "fold due", "part folded", "folded", "old logs removed", "marker written"} {
		if seen[step] < 2 {
			t.Errorf("the step %q came %d times: this run shows nothing", step, seen[step])
		}
	}
	return all
}

// wantWhole: whatever was told of is there, nothing else is, and the store
// goes on.
func wantWhole(t *testing.T, c crash) {
	t.Helper()
	before, err := Verify(c.dir)
	if err != nil || !before.Sound() {
		t.Errorf("Verify = %+v, %v", before, err)
	}
	s := open(t, c.dir)
	if s.Recovered() == before.Clean {
		t.Errorf("Recovered = %v, and the marker is there: %v", s.Recovered(), before.Clean)
	}
	for key, n := range c.told {
		rec, ok, err := s.Load(t.Context(), key)
		if err != nil || !ok || rec.Highest.Major < n {
			t.Errorf("Load(%s) = %v, %v, %v; %d was told of as on the disk", key, rec.Highest, ok, err, n)
		}
	}
	if n := s.Keys(); n != before.Keys || n > int64(len(c.told)+3) {
		t.Errorf("Keys = %d, Verify counts %d, %d were told of", n, before.Keys, len(c.told))
	}
	acquire(t, s, mark("after", 1))
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(c.dir); err != nil || !r.Sound() || !r.Clean || r.Keys != before.Keys+1 {
		t.Errorf("Verify after a clean stop = %+v, %v", r, err)
	}
	if logs, err := listLogs(c.dir); err != nil || len(logs) > 0 {
		t.Errorf("logs after a clean stop: %v, %v", logs, err)
	}
}

// TestCrashAtEachStep stops a store after each step of a rotation, of a fold
// and of a clean stop.
func TestCrashAtEachStep(t *testing.T) {
	for i, c := range crashes(t) {
		t.Run(fmt.Sprint(i, " ", c.step), func(t *testing.T) { wantWhole(t, c) })
	}
}

// TestCrashInHeader stops it while the header of a new log is written.
func TestCrashInHeader(t *testing.T) {
	tried := 0
	for i, c := range crashes(t) {
		if c.step != "log made" {
			continue
		}
		logs, err := listLogs(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		last := filepath.Join(c.dir, logName(logs[len(logs)-1]))
		for size := range int64(logHeaderSize) {
			torn := crash{dir: copyStore(t, c.dir), told: c.told}
			if err := os.Truncate(filepath.Join(torn.dir, filepath.Base(last)), size); err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprint(i, ", ", size, " bytes"), func(t *testing.T) { wantWhole(t, torn) })
		}
		if tried++; tried == 2 {
			return
		}
	}
	t.Error("no log was begun: this run shows nothing")
}
