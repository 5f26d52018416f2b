package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

type rig struct {
	*testing.T
	store   *storetest.Faulty
	gate    *gate.Gate
	handler http.Handler
	notice  string
	ready   error
	formats map[string]tokenstore.Format
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, store: storetest.NewFaulty(memory.New()), formats: map[string]tokenstore.Format{"a": tokenstore.Decimal}}
	var err error
	if r.gate, err = gate.New(r.store, gate.Options{Settle: time.Hour}); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "fenceproxy_test"}))
	r.handler = NewHandler(Options{Gate: r.gate, Store: r.store, Metrics: reg,
		Ready: func(context.Context) error { return r.ready }, Notice: func() string { return r.notice }, Formats: func() map[string]tokenstore.Format { return r.formats }})
	return r
}

func (r *rig) get(target string) (int, string) {
	req := httptest.NewRequest(http.MethodGet, target, nil)
	req.Host = "127.0.0.1:9901"
	return r.do(req)
}

func (r *rig) do(req *http.Request) (int, string) {
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

func (r *rig) enter(key tokenstore.Key, n uint64) *gate.Ticket {
	r.Helper()
	t := new(gate.Ticket)
	err := r.gate.Enter(r.Context(), gate.Request{Claims: []gate.Claim{{Key: key, Token: tokenstore.Token{Major: n}}},
		DrainTimeout: time.Second, Settle: time.Hour, Since: time.Now()}, t)
	if err != nil {
		r.Fatal(err)
	}
	return t
}

func TestHealth(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if code, body := r.get(path); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	r.ready = errors.New("the store sleeps")
	if code, body := r.get("/readyz"); code != 503 || !strings.Contains(body, "the store sleeps") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := r.get("/healthz"); code != 200 {
		t.Errorf("alive: %d", code)
	}
}

func TestKey(t *testing.T) {
	r := newRig(t)
	const key = "/a/it%27s" // as it stands in answers: the path needs one escape more
	r.enter(key, 7)
	r.enter(key, 7)
	r.enter(key, 7).Unsettle("reset")
	code, body := r.get("/v1/keys/%2Fa%2Fit%2527s")
	var st wire.KeyStatus
	if err := json.Unmarshal([]byte(body), &st); err != nil || code != 200 {
		t.Fatalf("%d %s %v", code, body, err)
	}
	if st.Key != key || st.Highest != "7" || st.RaisedAt == nil || len(st.InFlight) != 1 || st.InFlight[0].Count != 2 || st.InFlight[0].Token != "7" ||
		len(st.Unsettled) != 1 || st.Unsettled[0].Why != "reset" || st.QuarantinedUntil != nil {
		t.Errorf("%s", body)
	}
	r.enter("idle", 1).Settle()
	if code, body := r.get("/v1/keys/idle"); code != 200 || !strings.Contains(body, `"in_flight":[],"unsettled":[]`) {
		t.Errorf("%d %s", code, body)
	}
	for path, want := range map[string]int{"/v1/keys/nobody": 404, "/v1/keys/": 400, "/v1/keys/" + strings.Repeat("k", 1025): 400, "/v1/other": 404} {
		if code, body := r.get(path); code != want {
			t.Errorf("%.20s: %d %s", path, code, body)
		}
	}
	r.store.Fail(tokenstore.ErrUnavailable)
	if code, _ := r.get("/v1/keys/idle"); code != 503 {
		t.Errorf("store down: %d", code)
	}
}

// Where the formats of the rules differ, the one that owns the key is named.
func TestKeyOfRule(t *testing.T) {
	r := newRig(t)
	r.formats["z"] = tokenstore.Hex
	r.enter("k", 31).Settle()
	for path, want := range map[string]string{"/v1/keys/k": "?rule=NAME", "/v1/keys/k?rule=z": `"highest":"0x1f"`, "/v1/keys/k?rule=a": `"highest":"31"`, "/v1/keys/k?rule=x": "no fenced rule"} {
		if _, body := r.get(path); !strings.Contains(body, want) {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// A browser that was led here by a foreign name is kept out.
func TestForeignHost(t *testing.T) {
	r := newRig(t)
	for host, want := range map[string]int{"localhost:9901": 200, "LOCALHOST": 200, "127.0.0.1": 200, "[::1]:9901": 200, "127.9.9.9:1": 200,
		"evil.example": 403, "localhost.evil.example": 403, "10.0.0.1:9901": 403, "": 403, "127.0.0.1.evil.example": 403} {
		req := httptest.NewRequest(http.MethodGet, "/healthz", nil)
		req.Host = host
		if code, _ := r.do(req); code != want {
			t.Errorf("Host %q: %d, want %d", host, code, want)
		}
	}
}

// This version changes nothing.
func TestReadOnly(t *testing.T) {
	r := newRig(t)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		req := httptest.NewRequest(method, "/v1/keys/k", nil)
		req.Host = "localhost"
		if code, _ := r.do(req); code != 405 {
			t.Errorf("%s: %d", method, code)
		}
	}
}
