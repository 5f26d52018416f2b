package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

func leaseOf(id string) tokenstore.Lease {
	return tokenstore.Lease{ID: id, Holder: "holder of " + id, TTL: time.Minute, GrantedAt: time.Unix(1_700_000_000, 5)}
}

func grant(t testing.TB, s *Store, key tokenstore.Key, was tokenstore.Lease, id string) tokenstore.Lease {
	t.Helper()
	l, err := s.GrantLease(t.Context(), key, was, leaseOf(id), 0)
	if err != nil {
		t.Fatalf("GrantLease(%s): %v", key, err)
	}
	return l
}

func lease(t testing.TB, s *Store, key tokenstore.Key) tokenstore.Lease {
	t.Helper()
	l, err := s.Lease(t.Context(), key)
	if err != nil {
		t.Fatalf("Lease(%s): %v", key, err)
	}
	return l
}

// TestStoreBeforeLeases: a store and a log of before there were leases open,
// and keep leases from then on.
func TestStoreBeforeLeases(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	acquire(t, s, mark("k", 5))
	closed(t, s, false)
	editLeases(t, dir, func(tx *bolt.Tx) error { return tx.DeleteBucket(leasesBucket) })
	path := filepath.Join(dir, logName(1))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(logMagic)+3] = 1
	copy(b, seal(nil, bytes.Clone(b[:logHeaderSize-4])))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(dir); err != nil || !r.Sound() {
		t.Errorf("Verify = %+v, %v", r, err)
	}
	s = open(t, dir)
	wantHighest(t, s, "k", 5)
	if l := grant(t, s, "k", tokenstore.Lease{}, "a"); l.Token.Major != 6 {
		t.Errorf("token %v over 5", l.Token)
	}
	closed(t, s, true)
	if l := lease(t, open(t, dir), "k"); l.ID != "a" {
		t.Errorf("the lease reads as %+v", l)
	}
}

// TestLeasesOfOneBatch: what is granted and ended within one batch is decided
// one after the other, and its token is never granted again.
func TestLeasesOfOneBatch(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	entered, hold := make(chan struct{}, 2), make(chan struct{})
	s.hooks.afterSync = func(err error) error { entered <- struct{}{}; <-hold; return err }
	var wg sync.WaitGroup
	wg.Go(func() { acquire(t, s, mark("first", 1)) })
	<-entered
	queued := int64(0)
	ask := func(f func()) {
		wg.Go(f)
		queued++
		waitQueued(s, queued)
	}
	var granted tokenstore.Lease
	var err1, err2, err3 error
	ask(func() { granted, err1 = s.GrantLease(context.Background(), "k", tokenstore.Lease{}, leaseOf("a"), 0) })
	ask(func() { _, err2 = s.GrantLease(context.Background(), "k", tokenstore.Lease{}, leaseOf("b"), 0) })
	ask(func() { err3 = s.EndLease(context.Background(), "k", leaseOf("a")) })
	ask(func() { _, _ = s.Acquire(context.Background(), []tokenstore.Mark{mark("new", 70)}) })
	var above tokenstore.Lease
	var err4 error
	ask(func() {
		above, err4 = s.GrantLease(context.Background(), "new", tokenstore.Lease{}, leaseOf("c"), 0)
	})
	ask(func() { _ = s.EndLease(context.Background(), "new", leaseOf("c")) })
	close(hold)
	wg.Wait()
	var refused *tokenstore.LeaseError
	if err1 != nil || granted.Token.Major != 1 || err3 != nil {
		t.Errorf("granted %+v, %v; ended: %v", granted, err1, err3)
	}
	if !errors.As(err2, &refused) || refused.Current.ID != "a" {
		t.Errorf("the second one: %v, want a *LeaseError by the first", err2)
	}
	if err4 != nil || above.Token.Major != 71 {
		t.Errorf("over a raise of the same batch: %v, %v", above.Token, err4)
	}
	if l := lease(t, s, "k"); l.Held() {
		t.Errorf("%+v stands there", l)
	}
	s = open(t, copyStore(t, dir)) // as a kill would leave it
	if next := grant(t, s, "k", tokenstore.Lease{}, "d"); next.Token.Major != 72 {
		t.Errorf("token %v after 71 was granted and ended", next.Token)
	}
}

// TestNoLeaseToldBeforeSync: neither a grant nor a refusal by it may be told
// before the disk has it, and nothing after a failed sync.
func TestNoLeaseToldBeforeSync(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	first := grant(t, s, "k", tokenstore.Lease{}, "a")
	written, synced := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(synced) })
	t.Cleanup(release)
	s.hooks.afterSync = func(error) error { close(written); <-synced; return syscall.EIO }
	told := make(chan error, 2)
	go func() {
		_, err := s.GrantLease(context.Background(), "k", first, leaseOf("b"), 0)
		told <- err
	}()
	<-written
	if l := lease(t, s, "k"); !l.Same(first) {
		t.Errorf("%+v was told of before the sync", l)
	}
	go func() {
		_, err := s.GrantLease(context.Background(), "k", first, leaseOf("c"), 0)
		told <- err
	}()
	waitQueued(s, 1)
	if len(told) > 0 {
		t.Error("an answer before the sync")
	}
	release()
	for range 2 {
		wantUnknown(t, <-told)
	}
	if _, err := s.Lease(t.Context(), "k"); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("Lease after a failed sync: %v", err)
	}
	if err := s.Close(true); err == nil {
		t.Error("a clean stop was recorded by a store that had failed")
	}
}

// TestLeaseDoesNotWaitForFold: a grant goes to the log while the file is busy.
func TestLeaseDoesNotWaitForFold(t *testing.T) {
	h, due, release := holdFold(t)
	t.Cleanup(release)
	s := openWith(t, t.TempDir(), tuning{foldAt: 3}, h)
	for i := range 3 { // leases alone fill a log too
		grant(t, s, tokenstore.Key(fmt.Sprint("k", i)), tokenstore.Lease{}, "a")
	}
	s.group.poke()
	<-due
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	l, err := s.GrantLease(ctx, "k0", lease(t, s, "k0"), leaseOf("b"), 0)
	if err != nil || l.Token.Major != 4 {
		t.Errorf("GrantLease while a fold is due = %v, %v", l.Token, err)
	}
	if err := s.EndLease(ctx, "k1", lease(t, s, "k1")); err != nil {
		t.Error(err)
	}
	release()
	waitFolded(t, s)
	if lease(t, s, "k0").ID != "b" || lease(t, s, "k1").Held() || lease(t, s, "k2").ID != "a" {
		t.Error("the fold has brought back what was before")
	}
}

// TestLeasesOfBothLogs: at a clean stop after folds have failed, what the log
// in use says counts more than what was to be folded.
func TestLeasesOfBothLogs(t *testing.T) {
	state := func(ids map[tokenstore.Key]string, granted uint64) leaseState {
		s := leaseState{map[tokenstore.Key]tokenstore.Lease{}, granted}
		for key, id := range ids {
			s.changed[key] = tokenstore.Lease{ID: id}
		}
		return s
	}
	r := recent{frozen: newFrozen(nil, state(map[tokenstore.Key]string{"again": "old", "ended": "old", "kept": "old"}, 3), 1, 1)}
	_, all := r.all(state(map[tokenstore.Key]string{"again": "new", "ended": "", "new": "new"}, 5))
	if want := state(map[tokenstore.Key]string{"again": "new", "ended": "", "kept": "old", "new": "new"}, 5); !reflect.DeepEqual(all, want) {
		t.Errorf("%+v, want %+v", all, want)
	}
}

// BenchmarkGrants is for the time of one grant, and the memory of 10,000.
func BenchmarkGrants(b *testing.B) {
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprint(callers, " callers"), func(b *testing.B) {
			s := open(b, b.TempDir())
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					for i := c; i < b.N; i += callers {
						key := tokenstore.Key(fmt.Sprint("job ", i%10000))
						for {
							was, err := s.Lease(context.Background(), key)
							if err == nil {
								_, err = s.GrantLease(context.Background(), key, was, leaseOf("id"), 0)
							}
							if lost := (*tokenstore.LeaseError)(nil); errors.As(err, &lost) {
								continue
							}
							if err != nil {
								b.Error(err)
							}
							break
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
