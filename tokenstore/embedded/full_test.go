package embedded

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// fillDisk meets a full disk, as a limit on the size of files makes one: first
// where a frame is written to the log, then where a fold is to grow the file
// or to write its pages. It prints what happened.
func fillDisk(dir string) error {
	signal.Ignore(syscall.SIGXFSZ) // would end the process
	limits := tuning{foldAt: 20, most: 4, pause: time.Millisecond}
	s, err := Open(Options{Path: dir, Create: true, tuning: limits})
	if err != nil {
		return err
	}
	raise := func(key string, n uint64) error {
		_, err := s.Acquire(context.Background(), []tokenstore.Mark{mark(tokenstore.Key(key), n)})
		return err
	}
	report := func(what string, err error) {
		_, _, lerr := s.Load(context.Background(), "before")
		fmt.Printf("%s: unavailable=%v failed=%v load=%v\n", what, errors.Is(err, tokenstore.ErrUnavailable), s.Err() != nil, lerr == nil)
	}
	limit := func(size uint64) error {
		l := syscall.Rlimit{Cur: size, Max: ^uint64(0)}
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
	}
	long := strings.Repeat("x", 900)
	if err := raise("before", 1); err != nil {
		return err
	}

	// A part of the frame can be written, and must be cut off again.
	if err := limit(uint64(s.log.end) + 100); err != nil {
		return err
	}
	for i := range 3 {
		report("long frame", raise(fmt.Sprint(long, i), 1))
	}
	report("short frame", raise("before", 2))
	info, err := s.log.file.Stat()
	if err != nil {
		return err
	}
	fmt.Println("cut back:", info.Size() == s.log.end)
	if err := limit(^uint64(0)); err != nil {
		return err
	}
	report("space again", raise("before", 3))
	for i := range 200 {
		if err := raise(fmt.Sprint(long, i), 1); err != nil {
			return err
		}
	}
	folded := func() bool { // what is due, and so the log in use is short
		s.recent.mu.RLock()
		defer s.recent.mu.RUnlock()
		return s.recent.frozen == nil && len(s.recent.current) < limits.foldAt
	}

	// Logs have room for short keys, the file has none.
	for round := range 2 {
		for !folded() {
			s.group.poke()
			time.Sleep(time.Millisecond)
		}
		size := uint64(8 * pageSize)
		if round == 0 {
			if info, err = s.file.Stat(); err != nil {
				return err
			}
			size = uint64(info.Size())
		}
		if err := limit(size); err != nil {
			return err
		}
		taken := 0
		for err = nil; err == nil && taken < 10_000; taken++ {
			err = raise(fmt.Sprint("short", size, taken%5000), uint64(1+taken/5000))
		}
		report("no fold", err)
		fmt.Println("says so:", strings.Contains(err.Error(), "wait in") && strings.Contains(err.Error(), syscall.EFBIG.Error()), taken >= 2*limits.foldAt)
		if err := limit(^uint64(0)); err != nil {
			return err
		}
		for until := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(until); time.Sleep(time.Millisecond) {
			err = raise("before", 9)
		}
		report("space again", err)
	}
	return s.Close(true)
}

// TestFullDisk: a full disk makes the store unavailable while it lasts, and no
// longer; what was recorded before and after is there.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	got := strings.Join(lines(t, child(t, "full disk", dir)), "\n")
	want := strings.Join([]string{
		"long frame: unavailable=true failed=false load=true",
		"long frame: unavailable=true failed=false load=true",
		"long frame: unavailable=true failed=false load=true",
		"short frame: unavailable=false failed=false load=true",
		"cut back: true",
		"space again: unavailable=false failed=false load=true",
		"no fold: unavailable=true failed=false load=true",
		"says so: true true",
		"space again: unavailable=false failed=false load=true",
		"no fold: unavailable=true failed=false load=true",
		"says so: true true",
		"space again: unavailable=false failed=false load=true",
	}, "\n")
	if got != want {
		t.Fatalf("the child printed\n%s\nwant\n%s", got, want)
	}
	if r, err := Verify(dir); err != nil || !r.Sound() || !r.Clean {
		t.Errorf("Verify = %+v, %v", r, err)
	}
	s := open(t, dir)
	wantHighest(t, s, "before", 9)
	if s.Recovered() {
		t.Error("recovered after a clean stop")
	}
}
