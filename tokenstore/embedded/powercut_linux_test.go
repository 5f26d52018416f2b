//go:build amd64 || arm64

package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

func init() {
	roles["raise, stop cleanly"] = func(dir string) error { return raiseAndSay(dir, true) }
	roles["raise, stop"] = func(dir string) error { return raiseAndSay(dir, false) }
}

const (
	cutCallers = 2
	cutRaises  = 8 // of each, in each life
	cutSettle  = 7 * time.Second
)

// raiseAndSay raises and folds, and says on its standard output, before and
// after, what it does and what it was told.
func raiseAndSay(dir string, clean bool) error {
	say := func(format string, args ...any) { _, _ = fmt.Printf(format, args...) }
	say("opening")
	s, err := Open(Options{Path: dir, Create: true, Settle: cutSettle, tuning: tuning{foldAt: 9, foldChunk: 6}})
	if err != nil {
		return err
	}
	say("open")
	var callers sync.WaitGroup
	var failed error
	for c := range cutCallers {
		callers.Go(func() {
			rec, ok, err := s.Load(context.Background(), cutKey(c))
			n := rec.Highest.Major
			if ok {
				say("told %d %d", c, n) // read is told
			}
			for range cutRaises {
				n++
				say("asks %d %d", c, n)
				if err == nil {
					_, err = s.Acquire(context.Background(), cutMarks(c, n))
				}
				if err != nil {
					failed = err
					return
				}
				say("told %d %d", c, n)
			}
		})
	}
	callers.Wait()
	say("closing %v", clean)
	if err := errors.Join(failed, s.Close(clean)); err != nil {
		return err
	}
	say("closed %v", clean)
	return nil
}

func cutKey(c int) tokenstore.Key { return tokenstore.Key(fmt.Sprint("key ", c)) }

// cutMarks are the marks of one step: they are recorded together. The last key
// is new every time.
func cutMarks(c int, n uint64) []tokenstore.Mark {
	long := strings.Repeat("long", 100)
	return []tokenstore.Mark{mark(cutKey(c), n), mark("other "+cutKey(c), n), mark(tokenstore.Key(fmt.Sprint(long, c, " ", n)), n)}
}

// said is what the process had said before the power failed.
type said struct {
	asked, told [cutCallers]uint64
	opened      bool
	unclean     bool // a marker of a clean stop would be a lie
	clean       bool // it must be there
	settles     bool // the settle time of its life must be
}

func (r *recording) said(step int) said {
	s := r.before
	for _, o := range r.ops {
		if o.began > step {
			break
		}
		if o.kind != opSay {
			continue
		}
		var c int
		var n uint64
		switch word, rest, _ := strings.Cut(string(o.data), " "); word {
		case "opening":
			s.clean = false
		case "open":
			s.opened, s.unclean, s.settles = true, true, true
		case "closing":
			s.unclean = rest != "true"
			s.settles = s.unclean
		case "closed":
			s.clean = rest == "true"
		default:
			if _, err := fmt.Sscanf(rest, "%d %d", &c, &n); err == nil {
				s.asked[c] = max(s.asked[c], n)
				if word == "told" {
					s.told[c] = n
				}
			}
		}
	}
	return s
}

// holds: the store opens by itself, all that was told is there, and nothing
// that nobody asked for.
func (was said) holds(dir string) error {
	report, err := Verify(dir)
	if err != nil && (was.opened || !errors.Is(err, tokenstore.ErrMissing)) || err == nil && !report.Sound() {
		return fmt.Errorf("Verify = %+v, %v", report, err)
	}
	// What the first start repairs, the second one finds. The first one is over
	// before it folds.
	if err := was.opens(dir, hooks{reached: func(step string) {
		if step == "fold due" {
			runtime.Goexit()
		}
	}}); err != nil {
		return err
	}
	was.unclean, was.clean = true, false
	if err := was.opens(dir, hooks{}); err != nil {
		return fmt.Errorf("the second start: %w", err)
	}
	return nil
}

func (was said) opens(dir string, h hooks) error {
	s, err := Open(Options{Path: dir, Create: true, hooks: h})
	if err != nil {
		return fmt.Errorf("Open: %w", err)
	}
	defer func() { _ = s.Close(false) }()
	switch {
	case was.opened && s.Created():
		return errors.New("the store was made anew")
	case was.unclean && !s.Recovered():
		return errors.New("there is a marker of a clean stop, and there was none")
	case was.settles && s.Settle() < cutSettle:
		return fmt.Errorf("Settle = %v, which is less than before the cut", s.Settle())
	case was.clean && s.Recovered():
		return errors.New("the marker of a clean stop is lost")
	}
	for c := range cutCallers {
		rec, _, err := s.Load(context.Background(), cutKey(c))
		n := rec.Highest.Major
		if err != nil || n < was.told[c] || n > was.asked[c] {
			return fmt.Errorf("%s = %d, %v; %d was asked for and %d told", cutKey(c), n, err, was.asked[c], was.told[c])
		}
		for i := uint64(1); i <= n; i++ {
			marks := cutMarks(c, i)
			marks[1].Token.Major = n
			for _, m := range marks[1:] {
				if rec, ok, err := s.Load(context.Background(), m.Key); err != nil || !ok || rec.Highest != m.Token {
					return fmt.Errorf("%.20s… = %v, %v, %v; want %v, as its step was recorded", m.Key, rec.Highest, ok, err, m.Token)
				}
			}
		}
	}
	return nil
}

// cutEverywhere cuts the power before and after each thing that was done, and
// opens what may be left. It returns some of that, to be gone on from.
func (r *recording) cutEverywhere(t *testing.T, rng *rand.Rand) (left []leftover) {
	t.Helper()
	var steps []int
	var stale []byte
	for _, o := range r.ops {
		steps = append(steps, o.began, o.ended)
		if o.kind == opWrite {
			stale = append(stale, o.data...)
		}
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	dir := cutDir(t)
	images := 0
	for i, step := range steps {
		ws := []whim{keepSome{rng, stale}, dropAll{}, keepAll{}, tear{}, &dropFirst{}}
		for n := range r.looseChanges(step) {
			ws = append(ws, &dropChange{n: n})
		}
		said := r.said(step)
		for n, w := range ws {
			image := r.image(step, w)
			if err := writeImage(dir, image); err != nil {
				t.Fatal(err)
			}
			if err := said.holds(dir); err != nil {
				t.Fatalf("power cut in step %d of %d (%T): %v", step, r.step, w, err)
			}
			images++
			if n == 0 && i%(len(steps)/3) == len(steps)/6 {
				left = append(left, leftover{image, said})
			}
		}
	}
	t.Logf("%d operations, %d places to cut, %d images", len(r.ops), len(steps), images)
	return left
}

// leftover is what a power cut left of a store.
type leftover struct {
	image map[string][]byte
	said  said
}

// cutDir is a directory in memory where there is one: nothing that is written
// there has to outlive the test.
func cutDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "fenceproxy-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func writeImage(dir string, image map[string][]byte) error {
	old, err := os.ReadDir(dir)
	for _, f := range old {
		err = errors.Join(err, os.Remove(filepath.Join(dir, f.Name())))
	}
	for name, b := range image {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return err
}

// TestPowerCut records what processes do to the files of a store, through
// stops of both kinds and kills between a write and its sync, and cuts the power
// everywhere. What is left is opened, raised in, and cut everywhere again.
//
// It shows that no mark that was told goes down, that a step is there as a
// whole or not at all, that no record is damaged, that no marker of a clean stop
// is false, and that the store opens by itself, whatever part of the writes
// since the last sync of their file came to the disk, in whatever order, torn at
// half a page or at sectors, and whatever part of the changes of the directory.
// It believes that a sync which ended did what it promises (A4), and that a file
// system keeps what was synced: a disk that lies, or forgets, is not shown.
func TestPowerCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	r := newRecording(t, cutDir(t))
	r.run(t, "raise, stop")
	for _, kill := range []struct {
		of string
		at int
	}{
		{logPrefix, 1}, // the header of a log is written
		{logPrefix, 2}, // the first raise
		{logPrefix, 7},
		{storeFile, 1}, // the pages of a transaction
		{storeFile, 2}, // its header: the next life begins with it
		{storeFile, 4},
	} {
		r.killOf, r.killAt = kill.of, kill.at
		r.run(t, "raise, stop")
	}
	r.run(t, "raise, stop cleanly")
	r.run(t, "raise, stop")
	for i, was := range r.cutEverywhere(t, rng) {
		t.Run(fmt.Sprint("again ", i), func(t *testing.T) {
			dir := cutDir(t)
			if err := writeImage(dir, was.image); err != nil {
				t.Fatal(err)
			}
			r := newRecording(t, dir)
			r.before = was.said
			r.run(t, "raise, stop")
			r.cutEverywhere(t, rng)
		})
	}
}
