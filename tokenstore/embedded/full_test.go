package embedded

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// fillDisk meets a full disk twice, as a limit on the size of files makes one:
// first where the file is to grow, then where pages are written. It prints
// what happened.
func fillDisk(dir string) error {
	signal.Ignore(syscall.SIGXFSZ) // would end the process
	s, err := Open(Options{Path: dir, Create: true})
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

	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if err := limit(uint64(info.Size())); err != nil {
		return err
	}
	grown := 0
	for err = nil; err == nil && grown < 1000; grown++ {
		err = raise(fmt.Sprint(long, grown), 1)
	}
	report("growing", err)
	fmt.Println("grow error:", strings.Contains(err.Error(), "file resize error"))

	if err := limit(pageSize * 2); err != nil { // the headers alone can be written
		return err
	}
	for i := range 3 {
		report("writing", raise("before", uint64(2+i)))
	}
	if err := limit(^uint64(0)); err != nil {
		return err
	}
	report("space again", raise("before", 9))
	for i := range 200 {
		if err := raise(fmt.Sprint(long, "again", i), 1); err != nil {
			return err
		}
	}
	return s.Close(true)
}

// TestFullDisk: a full disk makes the store unavailable while it lasts, and no
// longer; what was recorded before and after is there.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	got := strings.Join(lines(t, child(t, "full disk", dir)), "\n")
	want := strings.Join([]string{
		"growing: unavailable=true failed=false load=true",
		"grow error: true",
		"writing: unavailable=true failed=false load=true",
		"writing: unavailable=true failed=false load=true",
		"writing: unavailable=true failed=false load=true",
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
