package etcd_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// ignore hears nothing.
type ignore struct{}

func (ignore) Raised(tokenstore.Mark) {}
func (ignore) Gone(session.Entry)     {}
func (ignore) Changed(tokenstore.Key) {}

// ear notes the raises that it is told of.
type ear struct {
	ignore
	mu     sync.Mutex
	raised map[tokenstore.Key]tokenstore.Token
}

func (e *ear) Raised(m tokenstore.Mark) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raised == nil {
		e.raised = map[tokenstore.Key]tokenstore.Token{}
	}
	e.raised[m.Key] = m.Token
}

func (e *ear) told(key tokenstore.Key) tokenstore.Token {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.raised[key]
}

// watch runs a watch until stop.
func watch(b *etcd.Backend, sink session.Sink) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = b.Watch(ctx, sink)
		}
	}()
	return func() { cancel(); <-ended }
}

// begin gives b a session, and a watch where a sink or none is named.
func begin(t testing.TB, b *etcd.Backend, sink session.Sink) (id session.ID, stop func()) {
	t.Helper()
	if sink == nil {
		sink = ignore{}
	}
	stop = watch(b, sink)
	_, _ = rand.Read(id[:])
	if err := b.Begin(soon(t), id, time.Minute); err != nil {
		t.Fatal(err)
	}
	return id, stop
}

// acquire asks for marks, each with a nonce that is random.
func acquire(b session.Backend, id session.ID, marks ...tokenstore.Mark) (older []session.Entry, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var wants []session.Want
	for _, m := range marks {
		var nonce [8]byte
		_, _ = rand.Read(nonce[:])
		wants = append(wants, session.Want{Mark: m, Nonce: uint64(nonce[0])<<8 | uint64(nonce[1])})
	}
	got, err := b.Acquire(ctx, id, wants)
	return got.Older, err
}

// TestProofNeedsTheWatch: without a watch that has come to it, no keepalive is
// confirmed, though etcd takes it (R7, X7); and once there is one it is, and
// the raise was told first.
func TestProofNeedsTheWatch(t *testing.T) {
	o := place(t, server(t))
	a, b := open(t, o), open(t, o)
	defer a.Close()
	defer b.Close()
	var e ear
	ida, stop := begin(t, a, &e)
	idb, stopB := begin(t, b, nil)
	defer stopB()
	if _, err := acquire(a, ida, mark("k", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.KeepAlive(soon(t), ida, time.Minute); err != nil {
		t.Fatal(err)
	}
	stop() // the watch is dead
	if _, err := acquire(b, idb, mark("k", 2)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := a.KeepAlive(ctx, ida, time.Minute); err == nil || errors.Is(err, session.ErrSessionOver) {
		t.Fatalf("KeepAlive without a watch: %v, want that it is not confirmed", err)
	}
	defer watch(a, &e)()
	if _, err := a.KeepAlive(soon(t), ida, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := e.told("k"); got != tok(2) {
		t.Errorf("the keepalive is confirmed and the raise to 2 was not told: %v", got)
	}
}

// TestCompaction: what the watch has missed because etcd has forgotten it is
// found in the records, before a keepalive is confirmed.
func TestCompaction(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	o := place(t, s)
	a, b := open(t, o), open(t, o)
	defer a.Close()
	defer b.Close()
	var e ear
	ida, stop := begin(t, a, &e)
	idb, stopB := begin(t, b, nil)
	defer stopB()
	const keys = 150 // more than one transaction reads
	name := func(n int) tokenstore.Key { return tokenstore.Key([]byte{'k', byte(n)}) }
	for n := range keys {
		if _, err := acquire(a, ida, mark(name(n), 1)); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	for _, n := range []int{3, keys - 1} {
		if _, err := acquire(b, idb, mark(name(n), 2)); err != nil {
			t.Fatal(err)
		}
	}
	raw := rawClient(t, s)
	last, err := raw.Put(soon(t), "/outside", "the store")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Compact(soon(t), last.Header.Revision); err != nil {
		t.Fatal(err)
	}
	defer watch(a, &e)()
	if _, err := a.KeepAlive(soon(t), ida, time.Minute); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]uint64{3: 2, keys - 1: 2, 7: 1} {
		if got := e.told(name(n)); got != tok(want) && !(want == 1 && got == tok(0)) {
			t.Errorf("of key %d it was told %v, want %d", n, got, want)
		}
	}
	if _, err := acquire(b, idb, mark(name(7), 2)); err != nil { // the watch goes on behind the gap
		t.Fatal(err)
	}
	if _, err := a.KeepAlive(soon(t), ida, time.Minute); err != nil || e.told(name(7)) != tok(2) {
		t.Errorf("after the gap: %v, told %v", err, e.told(name(7)))
	}
}

// TestLateKeepAlive: one that was on its way for long must not put the session
// back on its own lease, which is over before that of a later one.
func TestLateKeepAlive(t *testing.T) {
	s := server(t)
	o := place(t, s)
	a, late := open(t, o), open(t, o) // late has sent less than a, as if that were long ago
	defer a.Close()
	defer late.Close()
	id, stop := begin(t, a, nil)
	defer stop()
	defer watch(late, ignore{})()
	if _, err := a.KeepAlive(soon(t), id, time.Minute); err != nil {
		t.Fatal(err)
	}
	raw := rawClient(t, s)
	lease := func() int64 {
		resp, err := raw.Get(soon(t), o.Prefix+"alive/"+id.String())
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatal(resp, err)
		}
		return resp.Kvs[0].Lease
	}
	before := lease()
	if _, err := late.KeepAlive(soon(t), id, time.Second); err == nil || errors.Is(err, session.ErrSessionOver) {
		t.Errorf("the late keepalive: %v, want an unknown result", err)
	}
	if lease() != before {
		t.Error("the late keepalive has put the session on its own lease")
	}
}

// TestLeases: each keepalive has a lease of its own, since a renewal does not
// go through consensus. It lives for no less than was asked for.
func TestLeases(t *testing.T) {
	s := server(t)
	o := place(t, s)
	b := open(t, o)
	defer b.Close()
	id, stop := begin(t, b, nil)
	defer stop()
	raw := rawClient(t, s)
	seen := map[int64]bool{}
	for range 3 {
		if _, err := b.KeepAlive(soon(t), id, 4001*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		resp, err := raw.Get(soon(t), o.Prefix+"alive/"+id.String())
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatal(resp, err)
		}
		lease := resp.Kvs[0].Lease
		if seen[lease] {
			t.Error("a lease was renewed")
		}
		seen[lease] = true
		ttl, err := raw.TimeToLive(soon(t), clientv3.LeaseID(lease))
		if err != nil || ttl.GrantedTTL < 5 {
			t.Errorf("4.001s were asked for, %d s granted, %v", ttl.GrantedTTL, err)
		}
	}
}
