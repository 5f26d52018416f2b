package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"sync"
	"syscall"
	"testing"

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
	s.afterCommit = func(error) error { return syscall.EIO }
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
	s.afterCommit = nil
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

// TestFailedHeader: an error that looks like a full disk poisons the store all
// the same where a header has been written and not synced.
func TestFailedHeader(t *testing.T) {
	s := open(t, t.TempDir())
	s.afterCommit = func(error) error { return &fs.PathError{Op: "write", Err: syscall.ENOSPC} }
	_, err := s.Acquire(t.Context(), []tokenstore.Mark{mark("k", 6)})
	wantUnknown(t, err)
	if s.Err() == nil {
		t.Error("the store goes on over a header of which nobody knows whether it is on the disk")
	}
}

// TestNothingToldBeforeSync: while the sync of a raise runs, bbolt already
// shows the raised record to readers. Neither it nor a refusal by it may be
// told: a power cut could still undo it (story A2).
func TestNothingToldBeforeSync(t *testing.T) {
	s := open(t, t.TempDir())
	acquire(t, s, mark("k", 5))
	written, synced := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(synced) })
	t.Cleanup(release) // before the store is closed, where the test fails
	s.afterCommit = func(err error) error { close(written); <-synced; return err }
	raised := make(chan error, 1)
	go func() {
		_, err := s.Acquire(context.Background(), []tokenstore.Mark{mark("k", 6)})
		raised <- err
	}()
	<-written

	over, cancel := context.WithCancel(context.Background())
	told := make(chan error, 2)
	go func() {
		rec, _, err := s.Load(over, "k")
		if err == nil {
			err = fmt.Errorf("Load told of %v before its sync was over", rec.Highest)
		}
		told <- err
	}()
	go func() {
		_, err := s.Acquire(over, []tokenstore.Mark{mark("k", 4)})
		told <- err
	}()
	// Both give up; neither has an answer.
	waitQueued(s, 1)
	waitReader(s, told)
	cancel()
	for range 2 {
		wantUnknown(t, <-told)
	}
	s.afterCommit = nil
	release()
	if err := <-raised; err != nil {
		t.Fatal(err)
	}
	wantHighest(t, s, "k", 6)
}

// TestPoisonEndsWaits: a Load that waits for a sync ends when that sync fails.
func TestPoisonEndsWaits(t *testing.T) {
	s := open(t, t.TempDir())
	written, synced := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(synced) })
	t.Cleanup(release) // before the store is closed, where the test fails
	s.afterCommit = func(error) error { close(written); <-synced; return syscall.EIO }
	go func() { _, _ = s.Acquire(context.Background(), []tokenstore.Mark{mark("k", 6)}) }()
	<-written
	told := make(chan error, 1)
	go func() {
		_, _, err := s.Load(context.Background(), "k")
		told <- err
	}()
	waitReader(s, told)
	release()
	wantUnknown(t, <-told)
}

// TestGiveUpWhileSyncHangs: a disk that hangs holds no caller, and gathers no
// requests of callers that are gone.
func TestGiveUpWhileSyncHangs(t *testing.T) {
	s := open(t, t.TempDir())
	written, synced := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(synced) })
	t.Cleanup(release) // before the store is closed, where the test fails
	s.afterCommit = func(err error) error { close(written); <-synced; return err }
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
	s.afterCommit = nil
	release()
	acquire(t, s, mark("other", 1))
	wantHighest(t, s, "k", 1) // committed late
	if _, ok, err := s.Load(t.Context(), "queued"); ok || err != nil {
		t.Errorf("what was taken back is recorded (%v)", err)
	}
}

// waitReader returns when a Load waits for a sync, or has told something.
func waitReader(s *Store, told chan error) {
	for waits := false; !waits && len(told) == 0; runtime.Gosched() {
		s.durable.mu.Lock()
		waits = s.durable.moved != nil
		s.durable.mu.Unlock()
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
