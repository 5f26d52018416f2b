package postgres

import (
	"net"
	"testing"
	"time"
)

func TestQuiet(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	pair := func() (ours, theirs net.Conn) {
		if ours, err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if theirs, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
		return ours, theirs
	}

	ours, theirs := pair()
	if !quiet(ours) {
		t.Error("an idle connection is not quiet")
	}
	_, _ = theirs.Write([]byte("farewell"))
	eventually(t, 5*time.Second, "what was sent is seen", func() bool { return !quiet(ours) })

	// pgx may have left a read under way.
	ours, theirs = pair()
	go func() { _, _ = ours.Read(make([]byte, 1)) }()
	for range 20 {
		if !quiet(ours) {
			t.Fatal("an idle connection that is being read is not quiet")
		}
		time.Sleep(time.Millisecond)
	}
	_ = theirs.Close()
	eventually(t, 5*time.Second, "the end is seen", func() bool { return !quiet(ours) })

	_ = ours.Close()
	if quiet(ours) {
		t.Error("a closed connection is quiet")
	}
}
