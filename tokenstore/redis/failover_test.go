package redis_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// pair is a primary, its replica, and what is between them.
type pair struct {
	primary, replica *server
	link             *relay // replication
	vip              *relay // the address that the proxies know
}

func startPair(t *testing.T, args ...string) *pair {
	t.Helper()
	p := &pair{primary: startServer(t, append(args, "--repl-diskless-sync-delay", "0")...)}
	p.link = startRelay(t, p.primary.Address())
	p.vip = startRelay(t, p.primary.Address())
	host, port, _ := net.SplitHostPort(p.link.addr)
	p.replica = startServer(t, "--replicaof", host+" "+port)
	p.inStep(t)
	return p
}

// inStep waits until the replica has what the primary has.
func (p *pair) inStep(t *testing.T) {
	t.Helper()
	eventually(t, "the replica is in step", func() bool {
		_, err := p.primary.raw.Set(t.Context(), "step", "1", 0).Result()
		return err == nil && p.primary.do("WAIT", 1, 100).(int64) == 1
	})
}

// failOver makes the replica the primary, as a sentinel would.
func (p *pair) failOver() {
	p.primary.Kill()
	p.replica.do("REPLICAOF", "NO", "ONE")
	p.vip.turn(p.replica.Address())
}

// TestStoryX11: the store loses its last transaction, since Redis answers
// before it replicates, and the order of writes is broken. No rule of the
// protocol helps: this is why accept_lost_writes must be said.
func TestStoryX11(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	o := p.primary.store()
	a, b := openStore(t, through(p.vip, o), often), openStore(t, through(p.vip, o), often)
	mustAdmit(t, a, mark("k", 1)).Release()
	p.inStep(t)

	p.link.stall() // the replica falls behind; nobody is told
	w2 := mustAdmit(t, a, mark("k", 2))
	applied := []uint64{2} // w2 lands
	p.failOver()

	var w1 tokenstore.Grant
	eventually(t, "w1 is admitted or refused", func() (decided bool) {
		var stale *tokenstore.StaleError
		var err error
		if w1, err = admit(within(t, 15*time.Second), b, mark("k", 1)); err == nil && !w1.MaySend() {
			w1.Release() // its session was just over, and the next one begins
			return false
		}
		return err == nil || errors.As(err, &stale)
	})
	if w1 != nil {
		applied = append(applied, 1) // w1 lands
		w1.Release()
	}
	if len(applied) != 2 || applied[1] >= applied[0] {
		t.Errorf("applied: %v. A failover that lost a raise broke nothing: this does not show why it must be accepted", applied)
	}

	// What is done about it: the session that has lost an entry finds out by its
	// own acquires or keepalives, and what it may have in flight is cut.
	eventually(t, "the session of w2 ends", func() bool { return isLost(w2) })
	w2.Release()
	eventually(t, "service resumes", func() bool { return a.Remaining() > 0 && b.Remaining() > 0 })
	mustAdmit(t, a, mark("k", 3)).Release()
	var stale *tokenstore.StaleError
	if _, err := admit(within(t, 15*time.Second), b, mark("k", 2)); !errors.As(err, &stale) {
		t.Errorf("w2 after w3: %v, want that it is stale", err)
	}
}

// TestMinReplicas: with min-replicas-to-write a primary whose replica is
// behind refuses raises, and nothing is admitted that a failover would lose.
// Until min-replicas-max-lag is over it takes them: rarer is not never.
func TestMinReplicas(t *testing.T) {
	t.Parallel()
	// A replica tells each second how far it is, later on a busy machine.
	p := startPair(t, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "30")
	s := openStore(t, through(p.vip, p.primary.store()))
	mustAdmit(t, s, mark("k", 1)).Release()
	p.link.stall()
	p.primary.do("CONFIG", "SET", "min-replicas-max-lag", "1")
	n := uint64(1)
	eventually(t, "a raise is refused", func() bool {
		n++
		g, err := admit(within(t, 15*time.Second), s, mark("k", n))
		if err == nil {
			g.Release()
			return false
		}
		if !errors.Is(err, tokenstore.ErrUnavailable) || !strings.Contains(err.Error(), "NOREPLICAS") {
			t.Fatalf("raise: %v, want NOREPLICAS as a store that does not answer", err)
		}
		return true
	})
	if rec, _, err := s.Load(within(t, 5*time.Second), "k"); err == nil {
		t.Errorf("what such a primary knows is told: %+v", rec)
	}
}

// TestReplica: what a replica tells may be behind, so it is never asked, not
// even by a proxy that knew it as the primary.
func TestReplica(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	o := p.primary.store()
	p.inStep(t)
	replica := o
	replica.URL = "redis://" + p.replica.Address()
	if _, err := redis.Open(t.Context(), replica); err == nil || !strings.Contains(err.Error(), "role") {
		t.Errorf("Open of a replica: %v, want that its role is named", err)
	}
	if err := redis.Init(t.Context(), replica); err == nil {
		t.Error("a replica was made a store")
	}

	b := openBackend(t, o)
	defer func() { _ = b.Close() }()
	id := session.ID{1}
	if err := b.Begin(t.Context(), id, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), id, []session.Want{{Mark: mark("k", 1), Nonce: 1}}); err != nil {
		t.Fatal(err)
	}
	p.inStep(t)
	p.replica.do("REPLICAOF", "NO", "ONE")
	host, port, _ := net.SplitHostPort(p.replica.Address())
	p.primary.do("REPLICAOF", host, port)
	for name, call := range map[string]func() error{
		"Load":      func() error { _, _, err := b.Load(t.Context(), "k"); return err },
		"Look":      func() error { _, err := b.Look(t.Context(), []tokenstore.Key{"k"}); return err },
		"Entries":   func() error { _, err := b.Entries(t.Context(), id); return err },
		"Sessions":  func() error { _, err := b.Sessions(t.Context()); return err },
		"KeepAlive": func() error { _, err := b.KeepAlive(t.Context(), id, time.Minute); return err },
		"Delete": func() error {
			return b.Delete(t.Context(), []session.Entry{{Key: "k", Token: token(1), Session: id, Nonce: 1}})
		},
		"List": func() error { _, _, err := b.List(t.Context(), "", "", 0); return err },
		"Update": func() error {
			return b.Update(t.Context(), func(old []byte) ([]byte, error) { return old, nil })
		},
		"Acquire": func() error {
			_, err := b.Acquire(t.Context(), id, []session.Want{{Mark: mark("k", 0), Nonce: 2}})
			return err
		},
	} {
		err := call()
		var stale *tokenstore.StaleError
		if err == nil || errors.As(err, &stale) || errors.Is(err, session.ErrSessionOver) || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("%s at a primary that is a replica now: %v, want READONLY", name, err)
		}
	}
}
