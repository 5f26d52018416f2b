package sessiontest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// sessionChecks are the promises on sessions.
var sessionChecks = []check{
	{"a session is alive until its time is over, and named until its end", testSession},
	{"a keepalive makes a session last", testKeepAlive},
	{"gone is final", testGone},
	{"a session that is gone acquires nothing", testGoneAcquire},
	{"entries outlive their session (X5)", testOutlive},
	{"what is remembered is changed in one step", testUpdate},
}

func testSession(t *testing.T, open func() *proxy) {
	a := open()
	if n := len(a.sessions()); n != 0 {
		t.Fatalf("a new store has %d sessions", n)
	}
	before := time.Now()
	a.begin(short)
	b := open().begin(long)
	for a.sessions()[a.id] {
		time.Sleep(20 * time.Millisecond)
		if time.Since(before) > short+soon {
			t.Fatal("it does not expire")
		}
	}
	if lived := time.Since(before); lived < short {
		t.Errorf("it lived for %v of %v: the fence would have been broken", lived, short)
	}
	all := b.sessions()
	if alive, named := all[a.id]; alive || !named {
		t.Errorf("after its time: alive %v, named %v; want it named", alive, named)
	}
	if !all[b.id] {
		t.Error("the other session is not alive")
	}
	for _, id := range []session.ID{a.id, a.id, b.id, {1}} {
		if err := b.End(b.ctx(), id); err != nil {
			t.Errorf("End: %v", err)
		}
	}
	if n := len(b.sessions()); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func testKeepAlive(t *testing.T, open func() *proxy) {
	a, b := open().begin(short), open()
	for end := time.Now().Add(2 * short); time.Now().Before(end); time.Sleep(short / 10) {
		if _, err := a.KeepAlive(a.ctx(), a.id, short); err != nil {
			t.Fatalf("KeepAlive: %v", err)
		}
		if !b.sessions()[a.id] {
			t.Fatal("it is gone, and was kept alive")
		}
	}
}

func testGone(t *testing.T, open func() *proxy) {
	a, b := open().begin(short), open()
	eventually(t, "the session goes", func() bool { return !b.sessions()[a.id] })
	if _, err := a.KeepAlive(a.ctx(), a.id, long); !errors.Is(err, session.ErrSessionOver) {
		t.Errorf("KeepAlive of a session that is gone: %v, want ErrSessionOver", err)
	}
	if b.sessions()[a.id] {
		t.Error("it is alive again")
	}
	if _, err := a.KeepAlive(a.ctx(), session.ID{9}, long); !errors.Is(err, session.ErrSessionOver) {
		t.Errorf("KeepAlive of a session that never was: %v, want ErrSessionOver", err)
	}
}

func testGoneAcquire(t *testing.T, open func() *proxy) {
	a, b := open().begin(short), open().begin(long)
	eventually(t, "the session goes", func() bool { return !b.sessions()[a.id] })
	if _, _, err := a.acquire(mark("k", 5)); !errors.Is(err, session.ErrSessionOver) {
		t.Errorf("Acquire: %v, want ErrSessionOver", err)
	}
	if _, ok, err := b.Load(b.ctx(), "k"); ok || err != nil {
		t.Errorf("Load = %v, %v: it was recorded", ok, err)
	}
	same(t, "open", b.open("k"), nil)
}

// testOutlive is X5.
func testOutlive(t *testing.T, open func() *proxy) {
	a, b := open().begin(short), open().begin(long)
	mine := a.mustAcquire([]tokenstore.Mark{mark("k", 1)})
	eventually(t, "the session goes", func() bool { return !b.sessions()[a.id] })
	same(t, "open", b.open("k"), mine)
	b.mustAcquire([]tokenstore.Mark{mark("k", 2)}, mine...)
	entries, err := b.Entries(b.ctx(), a.id)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "entries", entries, mine)
	b.mustDelete(mine...)
	same(t, "open after its delete", b.open("k"), []session.Entry{{Key: "k", Token: token(2), Session: b.id, Nonce: b.nonce}})
}

func testUpdate(t *testing.T, open func() *proxy) {
	a, b := open(), open()
	const each = 10
	// Who was overtaken tries again: on a machine that is busy, ten times in a row
	// take longer than one call.
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	done := make(chan error, 2)
	for _, p := range []*proxy{a, b} {
		go func() {
			for range each {
				if err := p.Update(ctx, func(old []byte) ([]byte, error) { return append(old, 'x'), nil }); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	stop := errors.New("stop")
	var got []byte
	if err := a.Update(ctx, func(old []byte) ([]byte, error) { got = old; return []byte("nothing of this"), stop }); !errors.Is(err, stop) {
		t.Errorf("Update: %v, want the error of change", err)
	}
	if len(got) != 2*each {
		t.Errorf("%d changes are left of %d", len(got), 2*each)
	}
}
