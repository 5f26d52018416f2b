package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

// faulty fails on purpose, and tells of keys as its inner store does.
type faulty struct {
	*storetest.Faulty
	*memory.Store
}

func (f faulty) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, bool, error) {
	return f.Faulty.Load(ctx, key)
}
func (f faulty) Acquire(ctx context.Context, marks []tokenstore.Mark) (tokenstore.Grant, error) {
	return f.Faulty.Acquire(ctx, marks)
}
func (f faulty) Clear(key tokenstore.Key, t tokenstore.Token) { f.Faulty.Clear(key, t) }
func (f faulty) Recovered() bool                              { return f.Faulty.Recovered() }
func (f faulty) Raised() <-chan tokenstore.Mark               { return nil }
func (f faulty) Close(clean bool) error                       { return f.Faulty.Close(clean) }

type rig struct {
	*testing.T
	store   faulty
	gate    *gate.Gate
	handler http.Handler
	ready   *NotReady
	notice  string
	opts    Options
	audit   *lines
}

// lines takes audit lines, or fails.
type lines struct {
	mu   sync.Mutex
	all  bytes.Buffer
	fail error
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return 0, l.fail
	}
	return l.all.Write(b)
}

// take returns the lines since the last call.
func (r *rig) take() (all []AuditLine) {
	r.Helper()
	r.audit.mu.Lock()
	defer r.audit.mu.Unlock()
	for d := json.NewDecoder(&r.audit.all); ; {
		var l AuditLine
		if err := d.Decode(&l); err == io.EOF {
			r.audit.all.Reset()
			return all
		} else if err != nil {
			r.Fatal(err)
		}
		all = append(all, l)
	}
}

// results are the audit lines since the last call, in short.
func (r *rig) results() string {
	r.Helper()
	var out []string
	for _, l := range r.take() {
		out = append(out, l.Audit+" "+l.Key+" "+l.Result)
	}
	return strings.Join(out, ", ")
}

func newRig(t *testing.T, change ...func(o *Options)) *rig {
	inner := memory.New()
	r := &rig{T: t, store: faulty{storetest.NewFaulty(inner), inner}, audit: &lines{}}
	var err error
	if r.gate, err = gate.New(r.store, gate.Options{Settle: time.Hour}); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "fenceproxy_test"}))
	r.opts = Options{Gate: r.gate, Store: r.store, Metrics: reg, Ready: func(context.Context) *NotReady { return r.ready }, Notice: func() string { return r.notice },
		Rules: []Rule{
			{Name: "a", Fenced: true, DrainTimeout: time.Minute},
			{Name: "e", Fenced: true, DrainTimeout: time.Minute, Epoch: 3, MaxToken: tokenstore.Token{Major: 1000}, HasMaxToken: true},
			{Name: "open"},
		},
		// Keys of rule a begin with "a:" or "/", of rule e with "e:".
		Owners: func(key tokenstore.Key) []int {
			switch {
			case strings.HasPrefix(string(key), "a:"), key[0] == '/':
				return []int{0, 2}
			case strings.HasPrefix(string(key), "e:"):
				return []int{1}
			}
			return nil
		},
		Audit: NewAudit(r.audit), Header: func() dump.Header {
			return dump.Header{Settle: time.Minute, Rules: tokenstore.Rules{"a": "fa"}, Epochs: map[string]uint64{"e": 3}}
		}}
	for _, c := range change {
		c(&r.opts)
	}
	r.handler = NewHandler(r.opts)
	return r
}

func withToken(path string) func(*Options) {
	return func(o *Options) {
		token, err := guard.ReadToken(path)
		if err != nil {
			panic(err)
		}
		o.Token = token
	}
}

func (r *rig) get(target string) (int, string) { return r.do(r.request("GET", target, "")) }

// send makes a change.
func (r *rig) send(method, target, body string) (int, string) {
	return r.do(r.request(method, target, body))
}

func (r *rig) request(method, target, body string) *http.Request {
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	req.Host = "127.0.0.1:9901"
	if method != "GET" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

func (r *rig) do(req *http.Request) (int, string) {
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// into makes a request and reads its answer, which must have a status.
func (r *rig) into(v any, want int, method, target, body string) {
	r.Helper()
	code, text := r.send(method, target, body)
	if code != want {
		r.Fatalf("%s %s %s: %d %s, want %d", method, target, body, code, text, want)
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		r.Fatalf("%s: %v", text, err)
	}
}

// refused makes a request that must be refused by a name.
func (r *rig) refused(name wire.Name, method, target, body string) wire.Refusal {
	r.Helper()
	code, text := r.send(method, target, body)
	var p wire.Refusal
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.Name() != name || p.Status != code || p.Detail == "" {
		r.Errorf("%s %s %s: %d %s, want %s", method, target, body, code, text, name)
	}
	return p
}

func (r *rig) enter(key tokenstore.Key, n uint64) *gate.Ticket {
	r.Helper()
	t := new(gate.Ticket)
	err := r.gate.Enter(r.Context(), gate.Request{Claims: []gate.Claim{{Key: key, Token: tokenstore.Token{Major: n}}},
		DrainTimeout: time.Minute, Settle: time.Hour, Since: time.Now()}, t)
	if err != nil {
		r.Fatal(err)
	}
	return t
}

func (r *rig) highest(key tokenstore.Key) (tokenstore.Token, bool) {
	rec, ok, err := r.store.Store.Load(r.Context(), key)
	if err != nil {
		r.Fatal(err)
	}
	return rec.Highest, ok
}
