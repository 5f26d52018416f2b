package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest/stories"
)

// quick is a session that runs out soon.
var quick = session.Options{TTL: 6 * time.Second, Margin: time.Second, Linger: 500 * time.Millisecond, OpTimeout: 5 * time.Second, SweepEvery: 200 * time.Millisecond}

// admit takes a write up to where it may be sent.
func admit(t testing.TB, s *session.Store, marks ...tokenstore.Mark) (tokenstore.Grant, error) {
	t.Helper()
	ctx := soon(t)
	g, err := s.Acquire(ctx, marks)
	if err != nil {
		return nil, err
	}
	if err := g.Drained(ctx); err != nil {
		g.Release()
		return nil, err
	}
	if !g.MaySend() {
		g.Release()
		return nil, errors.New("it may not be sent")
	}
	return g, nil
}

func mustAdmit(t testing.TB, s *session.Store, marks ...tokenstore.Mark) tokenstore.Grant {
	t.Helper()
	g, err := admit(t, s, marks...)
	if err != nil {
		t.Fatalf("admit(%v): %v", marks, err)
	}
	return g
}

// relayed is a relay to the server, and o by way of it.
func relayed(t testing.TB, s *etcdtest.Server, o etcd.Options) (*sessiontest.Relay, etcd.Options) {
	t.Helper()
	r := sessiontest.NewRelay(t, s.Address())
	o.Endpoints = []string{"http://" + r.Address}
	return r, o
}

// back waits until a proxy admits writes again.
func back(t *testing.T, s *session.Store, m tokenstore.Mark) tokenstore.Grant {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		g, err := admit(t, s, m)
		if err == nil {
			return g
		}
		var stale *tokenstore.StaleError
		if errors.As(err, &stale) {
			t.Fatalf("after a failure of the store: %v", err)
		}
		if time.Now().After(end) {
			t.Fatalf("service does not resume: %v", err)
		}
	}
}

// TestStories tells those of the protocol over etcd.
func TestStories(t *testing.T) {
	t.Parallel()
	stories.Run(t, func(t *testing.T) stories.Place {
		s := server(t)
		o := place(t, s)
		return stories.Place{Address: s.Address(), Open: func(t *testing.T, address string) session.Backend {
			o := o
			o.Endpoints = []string{"http://" + address}
			return open(t, o)
		}}
	})
}

// TestLostAnswer is X12: the acquire is committed and its answer is lost. The
// entry that nobody owns is found and removed, by its own proxy.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := server(t)
	o := place(t, s)
	r, far := relayed(t, s, o)
	// OpTimeout is for how long RA waits for an answer that does not come: long
	// enough for a busy machine to bring the acquire to etcd.
	long := session.Options{TTL: time.Minute, Margin: 2 * time.Second, Linger: time.Minute, OpTimeout: 3 * time.Second}
	behind := open(t, o)
	defer behind.Close()
	ra, rb := openStore(t, open(t, far), long), openStore(t, open(t, o), long)
	r.Hold(false, true)
	if _, err := admit(t, ra, mark("k", 1)); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Fatalf("without an answer: %v, want unavailable", err)
	}
	// Its entry may be gone already: RA deletes it without hearing the answer.
	if rec, ok, err := behind.Load(soon(t), "k"); err != nil || !ok || rec.Highest != tok(1) {
		t.Fatalf("the acquire was to be committed: %+v, %v, %v", rec, ok, err)
	}
	r.Hold(false, false)
	began := time.Now()
	mustAdmit(t, rb, mark("k", 2)).Release()
	if took := time.Since(began); took > long.Linger/2 {
		t.Errorf("the entry that nobody owns was waited for, %v", took)
	}
}

// TestRestart: etcd is killed and started again, under a write in flight. What
// was recorded is there, and service resumes by itself.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	o := place(t, s)
	long := quick
	long.TTL, long.OpTimeout = time.Minute, 5*time.Second // RA's session outlives a start on a busy machine
	ra, rb := openStore(t, open(t, o), long), openStore(t, open(t, o), long)
	g := mustAdmit(t, ra, mark("k", 5))
	s.Kill()
	// A grant is sticky: equal tokens go on without the store (R4).
	again := mustAdmit(t, ra, mark("k", 5))
	again.Release()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if rec, ok, err := rb.Load(soon(t), "k"); err != nil || !ok || rec.Highest != tok(5) {
		t.Fatalf("after the restart: %+v, %v, %v", rec, ok, err)
	}
	if _, err := admit(t, rb, mark("k", 4)); !errors.As(err, new(*tokenstore.StaleError)) {
		t.Errorf("a stale write after the restart: %v", err)
	}
	// Of the entry the restarted server knows: RB waits for RA's write.
	waiting, err := rb.Acquire(soon(t), []tokenstore.Mark{mark("k", 6)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := waiting.Drained(ctx); err == nil {
		t.Fatal("the new holder does not wait for a write in flight")
	}
	waiting.Release()
	g.Release()
	back(t, rb, mark("k", 7)).Release()
	back(t, ra, mark("k", 8)).Release()
}

// TestPausedServer: etcd stands still for longer than a session lives, and
// wakes up with everything that was asked of it meanwhile.
func TestPausedServer(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	o := place(t, s)
	ra, rb := openStore(t, open(t, o), quick), openStore(t, open(t, o), quick)
	g := back(t, ra, mark("k", 1)) // on a busy machine its session is soon over, and the next one begins
	s.Pause()
	if _, err := admit(t, rb, mark("k", 2)); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("a raise without the store: %v, want unavailable", err)
	}
	<-g.Lost()
	if _, err := admit(t, ra, mark("k", 1)); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("an equal token after the deadline: %v, want unavailable", err)
	}
	time.Sleep(quick.TTL - quick.Margin)
	s.Resume()
	g.Release()
	back(t, rb, mark("k", 3)).Release()
	back(t, ra, mark("k", 4)).Release()
}
