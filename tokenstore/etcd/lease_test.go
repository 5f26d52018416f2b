package etcd_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestLeaser(t *testing.T) {
	storetest.RunLeases(t, func(t *testing.T) storetest.LeaseStore {
		return openStore(t, open(t, place(t, server(t))), session.Options{Linger: time.Second})
	})
}

// TestDamagedLease: what was not written by fenceproxy is nobody's lease and no
// counter, and fails closed.
func TestDamagedLease(t *testing.T) {
	s := server(t)
	o := place(t, s)
	raw := rawClient(t, s)
	p := openStore(t, open(t, o), session.Options{Linger: time.Second})
	next := tokenstore.Lease{ID: "i", TTL: time.Second}
	kept, err := p.GrantLease(soon(t), "kept", tokenstore.Lease{}, next, 0)
	if err != nil {
		t.Fatal(err)
	}
	value := string(session.EncodeLease("kept", kept))
	for name, bad := range map[string]string{"nothing": "", "noise": "nonsense", "of another key": value, "cut": value[:len(value)-3]} {
		if _, err := raw.Put(soon(t), o.Prefix+"lease/bad", bad); err != nil {
			t.Fatal(err)
		}
		_, err1 := p.Lease(soon(t), "bad")
		_, err2 := p.GrantLease(soon(t), "bad", tokenstore.Lease{}, next, 0)
		_, err3 := p.RenewLease(soon(t), "bad", next, 1)
		for _, err := range []error{err1, err2, err3, p.EndLease(soon(t), "bad", next)} {
			var damaged *tokenstore.DamagedError
			if !errors.As(err, &damaged) || damaged.Key != "bad" {
				t.Errorf("%s: %v, want a *DamagedError of the key", name, err)
			}
		}
	}
	if _, err := raw.Put(soon(t), o.Prefix+"mark/marked", "nonsense"); err != nil {
		t.Fatal(err)
	}
	var damaged *tokenstore.DamagedError
	if _, err := p.GrantLease(soon(t), "marked", tokenstore.Lease{}, next, 0); !errors.As(err, &damaged) || damaged.Key != "marked" {
		t.Errorf("over a damaged record: %v", err)
	}
	if l, err := p.Lease(soon(t), "marked"); err != nil || l.Held() {
		t.Errorf("its lease = %+v, %v", l, err)
	}
	if _, err := raw.Put(soon(t), o.Prefix+"granted", "12345678"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.GrantLease(soon(t), "new", tokenstore.Lease{}, next, 0); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("without a counter: %v", err)
	}
}

// TestLeaseFloor: a store whose counter is behind its revision, as after a
// snapshot that was restored with --bump-revision, goes on above that.
func TestLeaseFloor(t *testing.T) {
	b := open(t, place(t, server(t)))
	p := openStore(t, b, session.Options{Linger: time.Second})
	st, err := b.LeaseState(soon(t), "k")
	if err != nil || st.Floor == 0 || st.Granted != 0 {
		t.Fatalf("LeaseState = %+v, %v", st, err)
	}
	l, err := p.GrantLease(soon(t), "k", tokenstore.Lease{}, tokenstore.Lease{ID: "i", TTL: 1}, 0)
	if err != nil || l.Token.Major <= st.Floor {
		t.Errorf("token %v, %v; the revision was %d", l.Token, err, st.Floor)
	}
}
