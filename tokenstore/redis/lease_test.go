package redis_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestLeaser(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	storetest.RunLeases(t, func(t *testing.T) storetest.LeaseStore {
		s, err := session.Open(t.Context(), openBackend(t, server.store()), session.Options{Linger: settle})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// TestDamagedLease: what was not written by fenceproxy is nobody's lease and no
// counter, and fails closed.
func TestDamagedLease(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	p := openStore(t, o)
	ctx := within(t, 20*time.Second)
	next := tokenstore.Lease{ID: "i", TTL: time.Second}
	if _, err := p.GrantLease(ctx, "kept", tokenstore.Lease{}, next, 0); err != nil { // from now on it asks without a look
		t.Fatal(err)
	}
	server.do("HSET", o.Prefix+"leases", "bad", "nonsense")
	server.do("SET", o.Prefix+"record:marked", "nonsense")
	_, err1 := p.Lease(ctx, "bad")
	_, err2 := p.GrantLease(ctx, "bad", tokenstore.Lease{}, next, 0)
	_, err3 := p.RenewLease(ctx, "bad", next, 1)
	_, err4 := p.GrantLease(ctx, "marked", tokenstore.Lease{}, next, 0)
	for _, err := range []error{err1, err2, err3, p.EndLease(ctx, "bad", next), err4} {
		var damaged *tokenstore.DamagedError
		if !errors.As(err, &damaged) {
			t.Errorf("%v, want a *DamagedError", err)
		}
	}
	server.do("SET", o.Prefix+"granted", "12")
	if _, err := p.GrantLease(ctx, "new", tokenstore.Lease{}, next, 0); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("without a counter: %v", err)
	}
}

// TestLeasesRolledBack: a Redis that has lost its last grants would grant their
// tokens again. A proxy that saw them goes on above them.
func TestLeasesRolledBack(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	p := openStore(t, o)
	ctx := within(t, 20*time.Second)
	var last tokenstore.Lease
	for i := range 3 {
		var err error
		if last, err = p.GrantLease(ctx, "k", last, tokenstore.Lease{ID: fmt.Sprint(i), TTL: 1}, 0); err != nil {
			t.Fatal(err)
		}
	}
	server.do("DEL", o.Prefix+"granted", o.Prefix+"leases")
	next, err := p.GrantLease(ctx, "k", tokenstore.Lease{}, tokenstore.Lease{ID: "n", TTL: 1}, 0)
	if err != nil || !last.Token.Less(next.Token) {
		t.Errorf("token %v, %v after %v", next.Token, err, last.Token)
	}
}
