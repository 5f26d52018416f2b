package admin

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Who holds a key's lease is told with the key, whether a token of it is on
// record or not.
func TestGetTellsOfTheLease(t *testing.T) {
	var held *wire.KeyLease
	var fails error
	r := newRig(t, func(o *Options) {
		o.Lease = func(_ context.Context, key tokenstore.Key) (*wire.KeyLease, error) {
			if key != "a:1" {
				return nil, nil
			}
			return held, fails
		}
	})
	r.refused(wire.AdminNoRecord, "GET", "/v1/keys/a:1", "")
	held = &wire.KeyLease{Holder: "cron", Token: "7", ExpiresIn: wire.Duration(3 * time.Second), Waiting: 2}
	var st wire.KeyStatus
	r.into(&st, 200, "GET", "/v1/keys/a:1", "")
	if st.Lease == nil || *st.Lease != *held || st.Highest != "" {
		t.Errorf("%+v", st)
	}
	r.enter("a:1", 7).Settle()
	if _, body := r.get("/v1/keys/a:1"); strings.Contains(body, "stale") {
		t.Error(body)
	}
	r.enter("a:1", 8).Settle()
	if _, body := r.get("/v1/keys/a:1"); !strings.Contains(body, `"lease":{"holder":"cron","token":"7","expires_in":"3s","waiting":2,"stale":true}`) || !strings.Contains(body, `"highest":"8"`) {
		t.Error(body)
	}
	r.enter("a:2", 8).Settle()
	if _, body := r.get("/v1/keys/a:2"); strings.Contains(body, "lease") {
		t.Error(body)
	}
	fails = tokenstore.ErrUnavailable
	r.refused(wire.StoreUnavailable, "GET", "/v1/keys/a:1", "")
}

// A raise by an operator tells whose lease it has made useless; it is made, too,
// where nobody knows who that is.
func TestRaiseTellsOfTheLease(t *testing.T) {
	var fails error
	r := newRig(t, func(o *Options) {
		o.Lease = func(_ context.Context, key tokenstore.Key) (*wire.KeyLease, error) {
			if fails != nil || key != "e:1" {
				return nil, fails
			}
			return &wire.KeyLease{Holder: "cron", Token: "2/900"}, nil
		}
	})
	var st wire.KeyStatus
	r.into(&st, 200, "POST", "/v1/keys/e:1/raise", `{"token":"2/900","reason":"r"}`)
	if st.Lease == nil || st.Lease.Stale {
		t.Errorf("%+v", st)
	}
	r.into(&st, 200, "POST", "/v1/keys/e:1/raise", `{"token":"1","reason":"r"}`) // of epoch 3
	if st.Highest != "3/1" || st.Lease == nil || !st.Lease.Stale || st.Lease.Holder != "cron" {
		t.Errorf("%+v", st)
	}
	fails = tokenstore.ErrUnavailable
	st = wire.KeyStatus{}
	r.into(&st, 200, "POST", "/v1/keys/e:1/raise", `{"token":"2","reason":"r"}`)
	if st.Highest != "3/2" || st.Lease != nil {
		t.Errorf("%+v", st)
	}
}

// A key whose lease is held is not forgotten, and a dry run knows it.
func TestForgetTellsWhoHoldsTheLease(t *testing.T) {
	r := newRig(t)
	r.enter("a:1", 1).Settle()
	r.enter("a:2", 1).Settle()
	l, err := r.store.GrantLease(t.Context(), "a:1", tokenstore.Lease{}, tokenstore.Lease{ID: "id", Holder: "cron", TTL: time.Hour}, 0)
	if err != nil {
		t.Fatal(err)
	}
	const why = `its lease is held by "cron" with token 2; it has to be released, or to run out, first`
	if got := r.refused(wire.AdminInUse, "DELETE", "/v1/keys/a:1", `{"reason":"r"}`); got.Detail != "the key is in use: "+why {
		t.Error(got.Detail)
	}
	for _, body := range []string{`{"prefix":"a:","dry_run":true}`, `{"prefix":"a:","reason":"r"}`} {
		var report wire.ForgetReport
		r.into(&report, 200, "POST", "/v1/forget", body)
		if report.Forgotten != 1 || report.Kept != 1 || report.KeptKeys[0] != (wire.KeptKey{Key: "a:1", Why: why}) {
			t.Errorf("%s: %+v", body, report)
		}
	}
	if err := r.store.EndLease(t.Context(), "a:1", l); err != nil {
		t.Fatal(err)
	}
	var report wire.ForgetReport
	r.into(&report, 200, "DELETE", "/v1/keys/a:1", `{"reason":"r"}`)
	if report.Forgotten != 1 {
		t.Errorf("%+v", report)
	}
}

func TestLeaseLine(t *testing.T) {
	out := &lines{}
	a := NewAudit(out)
	at := time.Date(2026, 1, 31, 1, 0, 0, 0, time.FixedZone("", 3600))
	if err := a.WriteLease(LeaseLine{Time: at, Result: "granted", Key: "a:1", Holder: "cron", Token: "7", TTL: wire.Duration(30 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	if got := out.all.String(); got != `{"time":"2026-01-31T00:00:00Z","audit":"lease","result":"granted","key":"a:1","holder":"cron","token":"7","ttl":"30s"}`+"\n" {
		t.Error(got)
	}
}
