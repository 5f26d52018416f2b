package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// quick is a session that runs out soon.
var quick = session.Options{TTL: 3 * time.Second, Margin: time.Second, Linger: 500 * time.Millisecond, OpTimeout: time.Second, SweepEvery: 200 * time.Millisecond}

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

// through is o by way of a relay.
func through(o etcd.Options, r *relay) etcd.Options {
	o.Endpoints = []string{r.endpoint}
	return o
}

// back waits until a proxy admits writes again.
func back(t *testing.T, s *session.Store, m tokenstore.Mark) tokenstore.Grant {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(50 * time.Millisecond) {
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

// TestCut: RA is cut off from the store only, with a write in flight. It cuts
// that write at its deadline, before RB sends (X1, X3), and resumes later.
func TestCut(t *testing.T) {
	t.Parallel()
	s := server(t)
	o, r := place(t, s), newRelay(t, s)
	ra, rb := openStore(t, open(t, through(o, r)), quick), openStore(t, open(t, o), quick)
	g := mustAdmit(t, ra, mark("k", 1))
	r.hold(true, true)
	began := time.Now()
	lost := make(chan time.Time, 1)
	go func() {
		<-g.Lost()
		lost <- time.Now()
	}()
	newer := mustAdmit(t, rb, mark("k", 2))
	admitted := time.Now()
	select {
	case at := <-lost:
		if early := at.Add(quick.Linger); admitted.Before(early) {
			t.Errorf("the new holder was admitted %v before linger was over", early.Sub(admitted))
		}
		t.Logf("cut after %v, the new holder admitted after %v", at.Sub(began), admitted.Sub(began))
	default:
		t.Fatal("a newer write is sent, and the old one was not cut")
	}
	if g.MaySend() {
		t.Error("it may still be sent")
	}
	if _, err := admit(t, ra, mark("k", 1)); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("a write without a session: %v, want unavailable", err)
	}
	g.Release()
	newer.Release()
	r.hold(false, false)
	back(t, ra, mark("k", 3)).Release()
	if _, err := admit(t, ra, mark("k", 2)); err == nil {
		t.Error("a stale write was admitted")
	}
}

// TestDeadWatch is X7: what RA asks of the store is answered, but it hears of
// nothing. Its keepalives are not confirmed, and RB does not wait for ever.
func TestDeadWatch(t *testing.T) {
	t.Parallel()
	o := place(t, server(t))
	deaf := &deafened{Backend: open(t, o)}
	ra, rb := openStore(t, deaf, quick), openStore(t, open(t, o), quick)
	g := mustAdmit(t, ra, mark("k", 1))
	defer g.Release()
	mustAdmit(t, rb, mark("k", 2)).Release()
	select {
	case <-g.Lost():
	default:
		t.Error("the new holder is admitted, and the old grant is not lost")
	}
}

// deafened never hears of anything.
type deafened struct{ *etcd.Backend }

func (deafened) Watch(ctx context.Context, _ session.Sink) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestLostAnswer is X12: the acquire is committed and its answer is lost. The
// entry that nobody owns is found and removed, by its own proxy.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := server(t)
	o, r := place(t, s), newRelay(t, s)
	long := session.Options{TTL: time.Minute, Margin: 2 * time.Second, Linger: time.Minute, OpTimeout: 500 * time.Millisecond}
	behind := open(t, o)
	defer behind.Close()
	ra, rb := openStore(t, open(t, through(o, r)), long), openStore(t, open(t, o), long)
	r.hold(false, true)
	if _, err := admit(t, ra, mark("k", 1)); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Fatalf("without an answer: %v, want unavailable", err)
	}
	// Its entry may be gone already: RA deletes it without hearing the answer.
	if rec, ok, err := behind.Load(soon(t), "k"); err != nil || !ok || rec.Highest != tok(1) {
		t.Fatalf("the acquire was to be committed: %+v, %v, %v", rec, ok, err)
	}
	r.hold(false, false)
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
	long.TTL, long.Margin = 12*time.Second, 2*time.Second
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
	g := mustAdmit(t, ra, mark("k", 1))
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
