package admin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

func TestListBusy(t *testing.T) {
	r := newRig(t)
	r.enter("a:over", 5).Settle()
	r.enter("a:1", 5)
	r.enter("a:2", 6).Unsettle("the upstream reset the connection")
	r.enter("e:3", 7).Unsettle("timeout")

	var l wire.KeyList
	r.into(&l, 200, "GET", "/v1/keys?busy=true&limit=2", "")
	if len(l.Keys) != 2 || l.Next != "a:2" || l.WithoutKey != nil || l.QuarantinedUntil != nil {
		t.Fatalf("%+v", l)
	}
	if k := l.Keys[0]; k.Key != "a:1" || k.Rule != "a" || k.Highest != "5" || k.InFlight == nil || k.InFlight.Count != 1 || time.Since(k.InFlight.Since) > time.Hour || k.Unsettled != nil || k.Waiting != 0 {
		t.Errorf("%+v", k)
	}
	if k := l.Keys[1]; k.Key != "a:2" || k.InFlight != nil || k.Unsettled == nil || k.Unsettled.Count != 1 || k.Unsettled.Why != "the upstream reset the connection" || time.Until(k.Unsettled.Until) < time.Minute {
		t.Errorf("%+v", k)
	}
	for _, c := range []struct{ query, has, lacks string }{
		{"&limit=2&after=a:2", `"key":"e:3","rule":"e","highest":"7"`, "next"},
		{"&prefix=a:", `"key":"a:2"`, "e:3"},
		{"&prefix=none", `{"keys":[]}`, "a:"},
	} {
		if code, body := r.get("/v1/keys?busy=true" + c.query); code != 200 || !strings.Contains(body, c.has) || strings.Contains(body, c.lacks) {
			t.Errorf("%s: %d %s", c.query, code, body)
		}
	}
	r.refused(wire.AdminMalformed, "GET", "/v1/keys?busy=yes", "")
	r.refused(wire.AdminMalformed, "GET", "/v1/keys?busy=", "")
	if _, body := r.get("/v1/keys?busy=false"); !strings.Contains(body, `"a:over"`) || strings.Contains(body, "unsettled") {
		t.Error(body)
	}
}

// Who looks for a stuck key may do so because of the store: it is not asked.
func TestListBusyWithoutTheStore(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Store = o.Store.(faulty).Faulty }) // which lists nothing
	r.enter("a:1", 5)
	r.store.Fail(errors.New("the disk is gone"))
	r.refused(wire.AdminNotSupported, "GET", "/v1/keys", "")
	if code, body := r.get("/v1/keys?busy=true"); code != 200 || !strings.Contains(body, `{"key":"a:1","rule":"a","highest":"5","in_flight":{"count":1,`) {
		t.Errorf("%d %s", code, body)
	}
}

// What no row can have is told beside them.
func TestListBusyBesideTheKeys(t *testing.T) {
	r := newRig(t)
	r.store.SetRecovered(true)
	var err error
	if r.opts.Gate, err = gate.New(r.store, gate.Options{Settle: time.Hour, Unordered: true}); err != nil {
		t.Fatal(err)
	}
	r.gate, r.handler = r.opts.Gate, NewHandler(r.opts)
	var nowhere gate.Ticket
	if err := r.gate.Enter(t.Context(), gate.Request{Claims: []gate.Claim{{Unordered: true}}, DrainTimeout: time.Minute, Settle: time.Hour}, &nowhere); err != nil {
		t.Fatal(err)
	}
	nowhere.Unsettle("timeout")
	var l wire.KeyList
	r.into(&l, 200, "GET", "/v1/keys?busy=true", "")
	if len(l.Keys) != 0 || l.WithoutKey == nil || l.WithoutKey.Unsettled.Count != 1 || l.QuarantinedUntil == nil || time.Until(*l.QuarantinedUntil) < time.Minute {
		t.Errorf("%+v", l)
	}
	for _, query := range []string{"&prefix=a", "&after=a"} {
		if _, body := r.get("/v1/keys?busy=true" + query); strings.Contains(body, "without_key") {
			t.Errorf("%s: %s", query, body)
		}
	}
}
