package etcd_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// TestBetween: what several keys were decided on may change before it is
// written, and then nothing is.
func TestBetween(t *testing.T) {
	b := open(t, place(t, server(t)))
	defer b.Close()
	id, stop := begin(t, b, nil)
	defer stop()
	wants := []session.Want{{Mark: mark("k", 5), Nonce: 5}, {Mark: mark("l", 5), Nonce: 5}}
	for _, c := range []struct {
		name    string
		between func() error
		want    error
	}{
		{"a record is made", func() error { _, err := acquire(b, id, mark("k", 1)); return err }, nil},
		{"a higher token is raised", func() error { _, err := acquire(b, id, mark("l", 9)); return err }, nil},
		{"the session ends", func() error { return b.End(soon(t), id) }, session.ErrSessionOver},
	} {
		done, err := b.AcquireWith(soon(t), id, wants, func() {
			if err := c.between(); err != nil {
				t.Fatal(err)
			}
			wants[1].Token = tok(10) // so that the next one is not refused at once
		})
		if done || !errors.Is(err, c.want) {
			t.Errorf("%s: done %v, %v; want that nothing is done, and %v", c.name, done, err, c.want)
		}
	}
	for key, want := range map[tokenstore.Key]uint64{"k": 1, "l": 9} {
		if rec, _, err := b.Load(soon(t), key); err != nil || rec.Highest != tok(want) {
			t.Errorf("%s = %+v, %v, want %d", key, rec, err, want)
		}
	}
}

// TestOneSession: an identity is used once, and nothing comes after its end.
func TestOneSession(t *testing.T) {
	o := place(t, server(t))
	b, other := open(t, o), open(t, o)
	defer b.Close()
	defer other.Close()
	id, stop := begin(t, b, nil)
	defer stop()
	if err := other.Begin(soon(t), id, time.Minute); err == nil {
		t.Error("a session was begun twice")
	}
	if err := b.End(soon(t), id); err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(b, id, mark("k", 1)); !errors.Is(err, session.ErrSessionOver) {
		t.Errorf("Acquire after the end: %v, want ErrSessionOver", err)
	}
	if _, err := b.KeepAlive(soon(t), id, time.Minute); !errors.Is(err, session.ErrSessionOver) {
		t.Errorf("KeepAlive after the end: %v, want ErrSessionOver", err)
	}
}

// TestLongHolder: a name that the record has no room for is an unknown result,
// and nothing is recorded.
func TestLongHolder(t *testing.T) {
	b := open(t, place(t, server(t)))
	defer b.Close()
	id, stop := begin(t, b, nil)
	defer stop()
	name := make([]byte, 1<<15)
	if _, err := acquire(b, id, tokenstore.Mark{Key: "k", Token: tok(1), Holder: string(name)}); err == nil {
		t.Error("it was recorded")
	}
	long := tokenstore.Mark{Key: "k", Token: tok(1), Holder: string(name[1:])}
	if _, err := acquire(b, id, long); err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(b, id, long); err != nil {
		t.Errorf("the same holder again: %v", err)
	}
	long.Holder = "another"
	if _, err := acquire(b, id, long); !errors.As(err, new(*tokenstore.CollisionError)) {
		t.Errorf("another holder: %v, want a collision", err)
	}
}
