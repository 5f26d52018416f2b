package etcd_test

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/etcd"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// leader returns the member that leads, and the others.
func leader(t *testing.T, members []*etcdtest.Server) (first *etcdtest.Server, others []*etcdtest.Server) {
	t.Helper()
	for _, s := range members {
		st, err := rawClient(t, s).Status(soon(t), s.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if st.Leader == st.Header.MemberId {
			first = s
		} else {
			others = append(others, s)
		}
	}
	if first == nil {
		t.Fatal("nobody leads")
	}
	return first, others
}

// TestLeaderPaused: the leader of three stands still for longer than a session
// lives, and another takes over. When it wakes up it takes itself for the
// leader, and all that it knows of is too old: no session may go for that.
func TestLeaderPaused(t *testing.T) {
	t.Parallel()
	members, err := etcdtest.NewCluster(3)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range members {
		s.CloseAfter(t)
	}
	o := etcd.Options{Prefix: members[0].Prefix()}
	for _, s := range members {
		o.Endpoints = append(o.Endpoints, s.Endpoint)
	}
	if err := etcd.Init(soon(t), o); err != nil {
		t.Fatal(err)
	}
	life := session.Options{TTL: 8 * time.Second, Margin: 2 * time.Second, Linger: time.Second, OpTimeout: 2 * time.Second, SweepEvery: 200 * time.Millisecond}
	ra, rb := openStore(t, open(t, o), life), openStore(t, open(t, o), life)
	g := back(t, ra, mark("k", 5)) // a busy machine has its members elect another leader at any time
	held := back(t, ra, mark("mine", 1))
	first, _ := leader(t, members)
	first.Pause()
	paused := time.Now()
	g.Release()
	back(t, rb, mark("k", 6)).Release()
	t.Logf("a raise is made %v after the leader stood still", time.Since(paused))
	time.Sleep(time.Until(paused.Add(life.TTL + 2*time.Second)))
	t.Logf("the session of before the pause is alive: %v", held.MaySend())
	if !held.MaySend() { // it took too long to find another member
		held.Release()
		held = back(t, ra, mark("mine", 1))
	}
	first.Resume()
	time.Sleep(3 * time.Second) // leases that are over are revoked twice a second
	if !held.MaySend() {
		t.Error("the old leader has ended a session that it knew nothing of")
	}
	held.Release()
	back(t, rb, mark("k", 9)).Release()
	back(t, ra, mark("l", 9)).Release()
}
