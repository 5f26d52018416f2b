package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// TestPassing: which failures of a commit leave the store usable. The answer
// in doubt is no.
func TestPassing(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"no space for a write", &fs.PathError{Op: "write", Err: syscall.ENOSPC}, true},
		{"quota used up", &fs.PathError{Op: "write", Err: syscall.EDQUOT}, true},
		{"file too large", &fs.PathError{Op: "write", Err: syscall.EFBIG}, true},
		{"no space to grow", fmt.Errorf("file resize error: %s", &fs.PathError{Op: "truncate", Path: "x", Err: syscall.ENOSPC}), true},
		{"input/output error of a write", &fs.PathError{Op: "write", Err: syscall.EIO}, false},
		{"short write", &fs.PathError{Op: "write", Err: io.ErrUnexpectedEOF}, false},
		{"sync on Linux, no space", syscall.ENOSPC, false},
		{"sync on Linux, input/output error", syscall.EIO, false},
		{"sync elsewhere, no space", &fs.PathError{Op: "sync", Err: syscall.ENOSPC}, false},
		{"sync after growing, no space", fmt.Errorf("file sync error: %s", &fs.PathError{Op: "sync", Err: syscall.ENOSPC}), false},
		{"input/output error to grow", fmt.Errorf("file resize error: %s", &fs.PathError{Op: "truncate", Path: "x", Err: syscall.EIO}), false},
		{"mapping failed", errors.New("mmap allocate error: no space left on device"), false},
		{"sync of a log, no space", &syncError{&fs.PathError{Op: "write", Err: syscall.ENOSPC}}, false},
		{"a log that cannot be cut back", &leftError{&fs.PathError{Op: "write", Err: syscall.ENOSPC}, syscall.EIO}, false},
		{"panic", &panicError{"page 7 already freed"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := passing(tc.err); got != tc.want {
				t.Errorf("passing(%v) = %v, want %v", tc.err, got, tc.want)
			}
		})
	}
}

// TestFailedSync: after a failed sync nobody is told anything any more, and
// the process learns that it must end.
func TestFailedSync(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	acquire(t, s, mark("k", 5))
	s.hooks.afterSync = func(error) error { return syscall.EIO }
	_, err := s.Acquire(t.Context(), []tokenstore.Mark{mark("k", 6)})
	wantUnknown(t, err)
	select {
	case <-s.Failed():
	default:
		t.Fatal("Failed is open after a failed sync")
	}
	if err := s.Err(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Err = %v, which does not say why", err)
	}
	s.hooks.afterSync = nil
	for _, n := range []uint64{4, 5, 6, 7} {
		_, err := s.Acquire(t.Context(), []tokenstore.Mark{mark("k", n)})
		wantUnknown(t, err)
	}
	_, _, err = s.Load(t.Context(), "k")
	wantUnknown(t, err)
	if err := s.Close(true); err == nil {
		t.Error("a clean stop was recorded by a store that had failed")
	}
	s = open(t, dir)
	if !s.Recovered() {
		t.Error("not recovered after a failed sync")
	}
	rec, _, err := s.Load(t.Context(), "k")
	if err != nil || rec.Highest.Major < 5 {
		t.Errorf("after reopening: %v, %v", rec, err)
	}
}

// TestFailedFold: a failed sync of the file ends the store as one of a log
// does, and so does an error that looks like a full disk where a header has
// been written and not synced. The raises are in the log all the same.
func TestFailedFold(t *testing.T) {
	for name, fail := range map[string]error{
		"sync":           syscall.EIO,
		"header written": &fs.PathError{Op: "write", Err: syscall.ENOSPC},
		"panic":          &panicError{"page 7 already freed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openWith(t, dir, tuning{foldAt: 2}, hooks{afterFold: func(error) error { return fail }})
			acquire(t, s, mark("a", 5), mark("b", 5))
			s.group.poke() // begins the fold
			select {
			case <-s.Failed():
			case <-time.After(10 * time.Second):
				t.Fatal("Failed stays open after a failed fold")
			}
			if err := s.Err(); !errors.Is(err, fail) {
				t.Errorf("Err = %v, which does not say why", err)
			}
			_, err := s.Acquire(t.Context(), []tokenstore.Mark{mark("a", 6)})
			wantUnknown(t, err)
			if err := s.Close(true); err == nil {
				t.Error("a clean stop was recorded by a store that had failed")
			}
			s = open(t, copyStore(t, dir)) // after a panic the old one is locked for good
			wantHighest(t, s, "a", 5)
			wantHighest(t, s, "b", 5)
			if !s.Recovered() || s.Keys() != 2 {
				t.Errorf("Recovered = %v, Keys = %d", s.Recovered(), s.Keys())
			}
		})
	}
}

// haltAt makes hooks that halt the first fold at a step; there gets a value as
// it comes there, and release lets it go on.
func haltAt(t *testing.T, at string) (h hooks, there chan struct{}, release func()) {
	there, hold := make(chan struct{}, 99), make(chan struct{})
	release = sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	h.reached = func(step string) {
		if step == at {
			there <- struct{}{}
			<-hold
		}
	}
	return h, there, release
}

// TestFailedSyncThenFolded: a fold that ends when a sync has failed makes room
// for the next log. None is begun: the frame in doubt may stand in the old one in
// part, which is damage where a later one was begun.
func TestFailedSyncThenFolded(t *testing.T) {
	h, folded, release := haltAt(t, "folded")
	dir := t.TempDir()
	s := openWith(t, dir, tuning{foldAt: 2}, h)
	acquire(t, s, mark("a", 5), mark("b", 5))
	acquire(t, s, mark("c", 5), mark("d", 5)) // in the next log, which is long enough then
	<-folded
	s.hooks.afterSync = func(error) error { return syscall.EIO }
	_, err := s.Acquire(t.Context(), []tokenstore.Mark{mark("e", 5)})
	wantUnknown(t, err)
	last := s.log.generation
	release()
	waitFolded(t, s)
	s.group.stop()
	s.commit(nil) // what the end of the fold asks for
	if s.log.generation != last {
		t.Errorf("log %d was begun by a store that had failed", s.log.generation)
	}
	copied := copyStore(t, dir)
	path := filepath.Join(copied, logName(last))
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-1)
	}
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, copied)
	for _, key := range []tokenstore.Key{"a", "b", "c", "d"} {
		wantHighest(t, s, key, 5)
	}
	if s.Keys() != 4 {
		t.Errorf("%d keys, want 4: the frame was whole, and this run shows nothing", s.Keys())
	}
}

// TestFailedChangeInFold: where another change of the file fails between two
// parts of a fold, the fold does not write over what is in doubt.
func TestFailedChangeInFold(t *testing.T) {
	h, part, release := haltAt(t, "part folded")
	s := openWith(t, t.TempDir(), tuning{foldAt: 2, foldChunk: 1}, h)
	acquire(t, s, mark("a", 5), mark("b", 5))
	s.group.poke()
	<-part
	s.hooks.afterFold = func(error) error { return syscall.EIO }
	wantUnknown(t, s.Remember(t.Context(), tokenstore.Configuration{}))
	s.hooks.afterFold = nil
	before, err := readHeaders(s.file)
	if err != nil {
		t.Fatal(err)
	}
	release()
	s.folds.Wait()
	if after, err := readHeaders(s.file); err != nil || after.txid != before.txid {
		t.Errorf("transaction %d was begun behind %d, which failed (%v)", after.txid, before.txid, err)
	}
}

// TestNothingToldBeforeSync: while the sync of a raise runs, the raise stands
// in the log. Neither it nor a refusal by it may be told: a power cut could
// still undo it (story A2). What was before is told at once.
func TestNothingToldBeforeSync(t *testing.T) {
	s := open(t, t.TempDir())
	acquire(t, s, mark("k", 5))
	written, synced := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(synced) })
	t.Cleanup(release) // before the store is closed, where the test fails
	s.hooks.afterSync = func(err error) error { close(written); <-synced; return err }
	raised := make(chan error, 1)
	go func() {
		_, err := s.Acquire(context.Background(), []tokenstore.Mark{mark("k", 6), mark("new", 6)})
		raised <- err
	}()
	<-written

	wantHighest(t, s, "k", 5)
	if _, ok, err := s.Load(t.Context(), "new"); ok || err != nil || s.Keys() != 1 {
		t.Errorf("a key was told of before the sync: %v, %v, %d keys", ok, err, s.Keys())
	}
	over, cancel := context.WithCancel(context.Background())
	told := make(chan error, 2)
	for _, n := range []uint64{4, 5} { // stale by the disk, and by the sync under way
		go func() {
			_, err := s.Acquire(over, []tokenstore.Mark{mark("k", n)})
			told <- err
		}()
	}
	// Both give up; neither has an answer.
	waitQueued(s, 2)
	if len(told) > 0 {
		t.Error("an answer before the sync")
	}
	cancel()
	for range 2 {
		wantUnknown(t, <-told)
	}
	s.hooks.afterSync = nil
	release()
	if err := <-raised; err != nil {
		t.Fatal(err)
	}
	wantHighest(t, s, "k", 6)
	wantHighest(t, s, "new", 6)
}

// TestReplaySynced: what a killed process left in the kernel's memory alone is
// brought to the disk before it is told of (story A2).
func TestReplaySynced(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	acquire(t, s, mark("k", 5))
	if err := s.Close(false); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Path: dir, hooks: hooks{afterSync: func(error) error { return syscall.EIO }}})
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("Open: %v, want the error of the sync", err)
	}
	wantHighest(t, open(t, dir), "k", 5)
}

// TestGiveUpWhileSyncHangs: a disk that hangs holds no caller, and gathers no
// requests of callers that are gone.
func TestGiveUpWhileSyncHangs(t *testing.T) {
	s := open(t, t.TempDir())
	written, synced := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(synced) })
	t.Cleanup(release) // before the store is closed, where the test fails
	s.hooks.afterSync = func(err error) error { close(written); <-synced; return err }
	first := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, err := s.Acquire(ctx, []tokenstore.Mark{mark("k", 1)})
		first <- err
	}()
	<-written
	queued := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, []tokenstore.Mark{mark("queued", 1)})
		queued <- err
	}()
	waitQueued(s, 1)
	cancel()
	wantUnknown(t, <-first)
	wantUnknown(t, <-queued)
	if n := s.group.queued.Load(); n != 0 {
		t.Errorf("%d requests of callers that are gone are still queued", n)
	}
	s.hooks.afterSync = nil
	release()
	acquire(t, s, mark("other", 1))
	wantHighest(t, s, "k", 1) // committed late
	if _, ok, err := s.Load(t.Context(), "queued"); ok || err != nil {
		t.Errorf("what was taken back is recorded (%v)", err)
	}
}

// waitQueued returns when n requests wait behind the batch under way.
func waitQueued(s *Store, n int64) {
	for s.group.queued.Load() < n {
		runtime.Gosched()
	}
}

func wantUnknown(t *testing.T, err error) {
	t.Helper()
	var stale *tokenstore.StaleError
	if !errors.Is(err, tokenstore.ErrUnavailable) || errors.As(err, &stale) {
		t.Fatalf("error = %v, want one that wraps ErrUnavailable", err)
	}
}
