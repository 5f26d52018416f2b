package etcd_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd"
)

func TestInitTwice(t *testing.T) {
	o := place(t, server(t))
	a := open(t, o)
	defer a.Close()
	if err := a.Import(soon(t), []dump.Record{{Key: "k", Record: tokenstore.Record{Highest: tok(7)}}}); err != nil {
		t.Fatal(err)
	}
	if err := etcd.Init(soon(t), o); err != nil {
		t.Errorf("Init of a store: %v", err)
	}
	if rec, ok, err := a.Load(soon(t), "k"); !ok || err != nil || rec.Highest != tok(7) {
		t.Errorf("Load = %+v, %v, %v: the second Init has changed something", rec, ok, err)
	}
}

// TestOpenRefuses: what is no store is never taken for an empty one.
func TestOpenRefuses(t *testing.T) {
	s := server(t)
	raw := rawClient(t, s)
	put := func(key, value string) {
		t.Helper()
		if _, err := raw.Put(soon(t), key, value); err != nil {
			t.Fatal(err)
		}
	}
	o := func(prefix string) etcd.Options {
		return etcd.Options{Endpoints: []string{s.Endpoint}, Prefix: prefix}
	}
	nothing, foreign, later, lost := s.Prefix(), s.Prefix(), s.Prefix(), s.Prefix()
	put(foreign+"something", "else")
	put(later+"format", "fenceproxy 2")
	if err := etcd.Init(soon(t), o(lost)); err != nil {
		t.Fatal(err)
	}
	open(t, o(lost)).Close()
	if _, err := raw.Delete(soon(t), lost+"format"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		prefix   string
		on, init error
		says     string
	}{
		"nothing":            {nothing, tokenstore.ErrMissing, nil, "store init"},
		"other keys":         {foreign, tokenstore.ErrForeign, tokenstore.ErrForeign, "another prefix"},
		"a later version":    {later, tokenstore.ErrForeign, tokenstore.ErrForeign, "fenceproxy 2"},
		"a lost marker":      {lost, tokenstore.ErrForeign, tokenstore.ErrForeign, "restore"},
		"without last slash": {strings.TrimSuffix(later, "/"), tokenstore.ErrForeign, tokenstore.ErrForeign, later},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := etcd.Open(soon(t), o(c.prefix))
			if err == nil {
				_ = b.Close()
			}
			if !errors.Is(err, c.on) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Open: %v, want %v and %q", err, c.on, c.says)
			}
			if err := etcd.Init(soon(t), o(c.prefix)); !errors.Is(err, c.init) {
				t.Errorf("Init: %v, want %v", err, c.init)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]etcd.Options{
		"no endpoint":    {},
		"no URL":         {Endpoints: []string{"localhost:2379"}},
		"tls over http":  {Endpoints: []string{"http://localhost:1"}, TLS: &tls.Config{}},
		"https, no tls":  {Endpoints: []string{"https://localhost:1"}},
		"one of several": {Endpoints: []string{"https://localhost:1", "http://localhost:1"}, TLS: &tls.Config{}},
	} {
		if err := etcd.Init(soon(t), o); err == nil || errors.Is(err, tokenstore.ErrUnavailable) {
			t.Errorf("%s: %v, want that the options are wrong", name, err)
		}
	}
}

// TestNobodyThere: the start fails soon, whether the port refuses or is silent.
// One endpoint of several that answers is enough.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	o := place(t, server(t))
	dead := []string{"http://127.0.0.1:1", "http://" + silent.Addr().String()}
	for _, ep := range dead {
		began := time.Now()
		_, err := etcd.Open(soon(t), etcd.Options{Endpoints: []string{ep}})
		if !errors.Is(err, tokenstore.ErrUnavailable) || !strings.Contains(err.Error(), ep) {
			t.Errorf("Open: %v, want unavailable at %s", err, ep)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %v", took)
		}
		t.Log(err)
	}
	o.Endpoints = append(o.Endpoints, dead...)
	b := open(t, o)
	defer b.Close()
	if _, _, err := b.Load(soon(t), "k"); err != nil {
		t.Errorf("Load with one endpoint down: %v", err)
	}
}

// TestLogin: etcd asks who it is; a user that may not write is refused at the
// start, and one whose login has run out logs in again.
func TestLogin(t *testing.T) {
	t.Parallel()
	s := ownServer(t, "--auth-token-ttl", "1")
	raw, ctx := rawClient(t, s), soon(t)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	end := clientv3.GetPrefixRangeEnd("/mine/")
	for _, role := range []string{"root", "reader", "writer"} {
		must(raw.RoleAdd(ctx, role))
		must(raw.UserAdd(ctx, role, "secret"))
		must(raw.UserGrantRole(ctx, role, role))
	}
	must(raw.RoleGrantPermission(ctx, "reader", "/mine/", end, clientv3.PermissionType(clientv3.PermRead)))
	must(raw.RoleGrantPermission(ctx, "writer", "/mine/", end, clientv3.PermissionType(clientv3.PermReadWrite)))
	must(raw.AuthEnable(ctx))

	o := etcd.Options{Endpoints: []string{s.Endpoint}, Prefix: "/mine"}
	if err := etcd.Init(ctx, o); err == nil || !strings.Contains(err.Error(), "username") {
		t.Errorf("Init of nobody: %v, want that a login is asked for", err)
	}
	o.Username, o.Password = "writer", "wrong"
	if err := etcd.Init(ctx, o); err == nil {
		t.Error("Init with a wrong password is not refused")
	}
	o.Password = "secret"
	if err := etcd.Init(ctx, o); err != nil {
		t.Fatal(err)
	}
	reader := o
	reader.Username = "reader"
	if b, err := etcd.Open(ctx, reader); err == nil || !strings.Contains(err.Error(), "readwrite") {
		t.Errorf("Open of a reader: %v, want that it may not write", err)
		if err == nil {
			b.Close()
		}
	}
	elsewhere := o
	elsewhere.Prefix = "/other/"
	if err := etcd.Init(ctx, elsewhere); err == nil {
		t.Error("it may write outside of its prefix")
	}
	b := open(t, o)
	defer b.Close()
	id, stop := begin(t, b, nil)
	defer stop()
	if _, err := acquire(b, id, mark("k", 1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond) // the login runs out
	if _, err := acquire(b, id, mark("k", 2)); err != nil {
		t.Errorf("Acquire after the login has run out: %v", err)
	}
	if _, err := b.KeepAlive(soon(t), id, time.Minute); err != nil {
		t.Errorf("KeepAlive after the login has run out: %v", err)
	}
	other := open(t, o)
	defer other.Close()
	time.Sleep(2500 * time.Millisecond)
	var e ear
	listening, leave := context.WithCancel(soon(t))
	ended := make(chan error, 1)
	go func() { ended <- other.Watch(listening, &e) }()
	for n := uint64(3); e.told("k") == (tokenstore.Token{}); n++ {
		if _, err := acquire(b, id, mark("k", n)); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			t.Fatalf("Watch after the login has run out: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	leave()
	<-ended
}

// TestKeys reads page by page, and finds what is damaged.
func TestKeys(t *testing.T) {
	s := server(t)
	o := place(t, s)
	b := open(t, o)
	defer b.Close()
	when := time.Unix(1_700_000_000, 5)
	var records []dump.Record
	for _, key := range []tokenstore.Key{"a", "a/b", "a\x00b", "b", "b1", "b2", "b3", "c"} {
		records = append(records, dump.Record{Key: key, Record: tokenstore.Record{Highest: tok(uint64(len(key))), Holder: "h", RaisedAt: when}})
	}
	if err := b.Import(soon(t), records); err != nil {
		t.Fatal(err)
	}
	var got []tokenstore.Key
	after, calls := tokenstore.Key(""), 0
	for {
		page, next, err := b.List(soon(t), "b", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, kr := range page {
			if kr.Damaged != nil || kr.Record.Highest != tok(uint64(len(kr.Key))) || !kr.Record.RaisedAt.Equal(when) || kr.Record.Holder != "h" {
				t.Errorf("%+v", kr)
			}
			got = append(got, kr.Key)
		}
		if calls++; next == "" {
			break
		}
		after = next
	}
	if want := "b b1 b2 b3"; calls != 2 || join(got) != want {
		t.Errorf("keys = %q in %d calls, want %q in 2", join(got), calls, want)
	}
	if page, next, err := b.List(soon(t), "b", "zzz", 0); len(page) != 0 || next != "" || err != nil {
		t.Errorf("behind the last: %v, %q, %v", page, next, err)
	}
	// What is imported raises, and never lowers.
	if err := b.Import(soon(t), []dump.Record{{Key: "b1", Record: tokenstore.Record{Highest: tok(1)}}, {Key: "b2", Record: tokenstore.Record{Highest: tok(9)}}}); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[tokenstore.Key]uint64{"b1": 2, "b2": 9} {
		if rec, _, err := b.Load(soon(t), key); err != nil || rec.Highest != tok(want) {
			t.Errorf("%s = %+v, %v, want %d", key, rec, err, want)
		}
	}
	// The holder of an equal token comes along where there is none, and changes none.
	if err := b.Import(soon(t), []dump.Record{{Key: "b2", Record: tokenstore.Record{Highest: tok(9), Holder: "g"}}, {Key: "b3", Record: tokenstore.Record{Highest: tok(2), Holder: "g"}}}); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[tokenstore.Key]string{"b2": "g", "b3": "h"} {
		if rec, _, err := b.Load(soon(t), key); err != nil || rec.Holder != want {
			t.Errorf("%s = %+v, %v, want the holder %s", key, rec, err, want)
		}
	}
	if _, err := rawClient(t, s).Put(soon(t), o.Prefix+"mark/b", "nonsense"); err != nil {
		t.Fatal(err)
	}
	page, _, err := b.List(soon(t), "b", "", 1)
	if err != nil || len(page) != 1 || page[0].Damaged == nil {
		t.Errorf("a damaged record: %+v, %v", page, err)
	}
}

func join(keys []tokenstore.Key) string {
	var s []string
	for _, key := range keys {
		s = append(s, string(key))
	}
	return strings.Join(s, " ")
}

// TestDamaged: a record that cannot be read fails closed, its key alone, and
// its entries are still found.
func TestDamaged(t *testing.T) {
	s := server(t)
	o := place(t, s)
	b := open(t, o)
	defer b.Close()
	id, stop := begin(t, b, nil)
	defer stop()
	if _, err := acquire(b, id, mark("k", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(b, id, mark("other", 1)); err != nil {
		t.Fatal(err)
	}
	raw := rawClient(t, s)
	resp, err := raw.Get(soon(t), o.Prefix+"mark/other")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"empty": "", "text": "42", "a later version": "\x02" + strings.Repeat("x", 60),
		"another key's": string(resp.Kvs[0].Value), // the same token, but its checksum is over the other key
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := raw.Put(soon(t), o.Prefix+"mark/k", value); err != nil {
				t.Fatal(err)
			}
			var damaged *tokenstore.DamagedError
			if _, ok, err := b.Load(soon(t), "k"); ok || !errors.As(err, &damaged) || damaged.Key != "k" || !errors.Is(err, tokenstore.ErrUnavailable) {
				t.Errorf("Load = %v, %v", ok, err)
			}
			if _, err := acquire(b, id, mark("k", 9), mark("new", 1)); !errors.As(err, &damaged) {
				t.Errorf("Acquire of two: %v", err)
			}
			if _, ok, err := b.Load(soon(t), "new"); ok || err != nil {
				t.Errorf("the other key was recorded: %v, %v", ok, err)
			}
			if err := b.Import(soon(t), []dump.Record{{Key: "k", Record: tokenstore.Record{Highest: tok(9)}}}); !errors.As(err, &damaged) {
				t.Errorf("Import: %v", err)
			}
			states, err := b.Look(soon(t), []tokenstore.Key{"k", "other"})
			if err != nil || len(states) != 2 || states[0].Exists || len(states[0].Open) != 1 || !states[1].Exists {
				t.Errorf("Look = %+v, %v", states, err)
			}
			for _, n := range []uint64{9, 1} { // a raise, and where the record has a token at all the same one
				damaged = nil
				if _, err := acquire(b, id, mark("k", n)); !errors.As(err, &damaged) {
					t.Errorf("Acquire of %d: %v", n, err)
				}
			}
			resp, err := raw.Get(soon(t), o.Prefix+"mark/k")
			if err != nil || string(resp.Kvs[0].Value) != value {
				t.Errorf("the damaged record is %q now, %v", resp.Kvs[0].Value, err)
			}
			if states, err = b.Look(soon(t), []tokenstore.Key{"k"}); err != nil || len(states) != 1 || len(states[0].Open) != 1 {
				t.Errorf("Look after it = %+v, %v: want the entry of before alone", states, err)
			}
		})
	}
}

// TestEmptyContext: nothing is asked of etcd when it is too late.
func TestEmptyContext(t *testing.T) {
	b := open(t, place(t, server(t)))
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := b.Load(ctx, "k"); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("Load: %v", err)
	}
	if err := b.Watch(ctx, ignore{}); err == nil {
		t.Error("Watch returned no error")
	}
}
