package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/upstream"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

// rig is a proxy on real sockets between clients and a legacy API that the
// test plays.
type rig struct {
	*testing.T
	store   *storetest.Faulty
	gate    *gate.Gate
	handler *Handler
	figures *prometheus.Registry
	addr    string // of the proxy
	api     *api

	routes          []route.Rule // of the proxy
	upstreamOptions upstream.Options

	leaves bool // unsettled writes behind: the test has set a settle time that outlasts it
}

// api is the legacy API: each request waits until the test lets it go on.
type api struct {
	listener net.Listener
	arrived  chan *arrival
	serve    http.HandlerFunc // instead of waiting for the test
}

// arrival is one request at the API, with its body read.
type arrival struct {
	r    *http.Request
	body string
	w    http.ResponseWriter
	go_  chan struct{}
	once sync.Once
}

// answer lets the request end with a plain 200.
func (a *arrival) answer() { a.once.Do(func() { close(a.go_) }) }

const testSettle = 300 * time.Millisecond

const (
	// patience is every timeout that a test is not about: longer than any wait
	// of the test itself, so that what waits for it in vain fails.
	patience = 30 * time.Second
	// soon is such a wait: for what comes by itself, on however busy a machine.
	soon = 12 * time.Second
)

// newRig starts the proxy. change may change its options before.
func newRig(t *testing.T, change func(o *Options, rules []Rule)) *rig {
	t.Helper()
	r := &rig{T: t, store: storetest.NewFaulty(memory.New()), api: &api{arrived: make(chan *arrival, 100)}}
	r.api.listener = listen(t)
	api := &http.Server{Handler: http.HandlerFunc(r.api.handle)}
	go func() { _ = api.Serve(r.api.listener) }()
	t.Cleanup(func() { _ = api.Close() })
	r.proxy("http://"+r.api.listener.Addr().String(), change)
	return r
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// proxy starts the proxy in front of target.
func (r *rig) proxy(target string, change func(o *Options, rules []Rule)) {
	r.Helper()
	one := func(template string) []route.KeySpec {
		return []route.KeySpec{{Key: template, Header: "X-Fencing-Token"}}
	}
	routes := []route.Rule{
		{Name: "accounts", Paths: []string{"/accounts/{id}"}, Keys: one("account:{id}")},
		{Name: "login", Paths: []string{"/login"}, NoKey: true},
		{Name: "query", Paths: []string{"/query"}, Keys: one("q:{query.id}")},
		{Name: "jobs", Paths: []string{"/jobs"}, Methods: []string{"POST"}, Keys: one("jobs")},
		{Name: "transfer", Paths: []string{"/transfer"}, Keys: []route.KeySpec{
			{Key: "account:{json:/from}", Header: "X-Fencing-Token"}, {Key: "account:{json:/to}", Header: "X-Fencing-Token-To"}}},
		{Name: "held", Paths: []string{"/held"}, Keys: one("held"), Headers: []string{"X-Holder"}},
		{Name: "reads", Paths: []string{"/reads"}, Keys: one("reads"), FenceReads: true},
		{Name: "bounded", Paths: []string{"/bounded"}, Keys: one("bounded")},
		{Name: "feed", Paths: []string{"/feed/{id}"}, Keys: one("feed:{id}"), WebSocket: true},
		{Name: "chat", Paths: []string{"/chat"}, NoKey: true, WebSocket: true},
		{Name: "zxid", Paths: []string{"/zxid"}, Keys: one("zxid"), Format: tokenstore.Hex},
		{Name: "rpc", Paths: []string{"/grpc.testing.TestService/*"}, Keys: one("rpc:{grpc.method}")},
	}
	rules := make([]Rule, len(routes))
	for i, rt := range routes {
		rules[i] = Rule{Name: rt.Name, Format: rt.Format, Fenced: !rt.NoKey, DrainTimeout: patience,
			ResponseTimeout: patience, Settle: testSettle, DiscloseHighest: true}
		for _, k := range rt.Keys {
			rules[i].Headers = append(rules[i].Headers, k.Header)
		}
		switch rt.Name {
		case "held":
			rules[i].HolderHeader = "X-Holder"
		case "bounded":
			rules[i].MaxToken, rules[i].HasMaxToken, rules[i].MaxJump = tokenstore.Token{Major: 1000}, true, 10
		case "zxid":
			rules[i].Epoch = 3
		}
	}
	o := Options{Rulebook: Rulebook{Rules: rules, ResponseTimeout: patience, Settle: testSettle, MaxBodyBuffer: 1 << 10, MaxBuffered: 64 << 10},
		BodyTimeout: patience, Log: zap.NewNop()}
	if change != nil {
		change(&o, rules)
	}
	u, err := url.Parse(target)
	if err != nil {
		r.Fatal(err)
	}
	r.routes = routes
	r.upstreamOptions = upstream.Options{URL: u, ConnectTimeout: patience, PreserveHost: true, UnsettledStatuses: []int{202, 502, 504}}
	if o.Upstream, err = upstream.New(r.upstreamOptions); err != nil {
		r.Fatal(err)
	}
	if o.Table, err = route.New(routes, route.Options{Headers: []string{"X-Fencing-Token"}}); err != nil {
		r.Fatal(err)
	}
	if r.gate, err = gate.New(r.store, gate.Options{Settle: testSettle, MaxWaitingPerKey: 3,
		Unordered: slices.ContainsFunc(rules, func(r Rule) bool { return r.Optional || r.Observe })}); err != nil {
		r.Fatal(err)
	}
	o.Gate = r.gate
	r.figures = prometheus.NewRegistry()
	o.Metrics = NewMetrics(r.figures, r.gate)
	r.handler = NewHandler(o)
	r.Cleanup(func() {
		r.gate.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if r.api != nil {
			go r.api.answer(ctx) // what still waited arrives now
		}
		if r.leaves {
			r.eventually("nothing is in flight", func() bool { return r.gate.Counts().InFlight == 0 })
		} else if err := r.gate.Idle(ctx); err != nil {
			r.Errorf("a write was left behind: %+v", r.gate.Counts())
		}
		for r.handler.buffered.Load() != 0 && ctx.Err() == nil { // the handlers still end
			time.Sleep(time.Millisecond)
		}
		if n := r.handler.buffered.Load(); n != 0 {
			r.Errorf("%d bytes of max_buffered were left behind", n)
		}
	})
	r.serve(ServerOptions{HeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeader: 64 << 10})
}

// serve starts a server of the proxy; r.addr is the last one's.
func (r *rig) serve(o ServerOptions) *http.Server {
	r.Helper()
	srv := NewServer(r.handler, o)
	l := listen(r.T)
	r.addr = l.Addr().String()
	if r.overTLS() {
		known := httptest.NewTLSServer(nil) // it has a certificate
		defer known.Close()
		l = tls.NewListener(l, &tls.Config{Certificates: known.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}})
	}
	go func() { _ = srv.Serve(NewListener(l)) }()
	r.Cleanup(func() { _ = srv.Close() })
	return srv
}

// overTLS reports whether this rig's clients come in over TLS.
func (r *rig) overTLS() bool { return strings.HasPrefix(r.Name(), "TestOverTLS") }

func (a *api) handle(w http.ResponseWriter, r *http.Request) {
	if a.serve != nil {
		a.serve(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	at := &arrival{r: r, body: string(body), w: w, go_: make(chan struct{})}
	a.arrived <- at
	<-at.go_
	_, _ = io.WriteString(w, "done\n")
}

// answer lets all requests end until ctx does.
func (a *api) answer(ctx context.Context) {
	for {
		select {
		case at := <-a.arrived:
			at.answer()
		case <-ctx.Done():
			return
		}
	}
}

// next waits for a request at the API.
func (r *rig) next() *arrival {
	r.Helper()
	select {
	case a := <-r.api.arrived:
		r.Cleanup(a.answer)
		return a
	case <-time.After(soon):
		r.Fatal("nothing arrives at the API")
		return nil
	}
}

// nothing looks for a moment whether something arrives that must not.
func (r *rig) nothing(why string) {
	r.Helper()
	select {
	case a := <-r.api.arrived:
		a.answer()
		r.Errorf("%s: %s %s arrived with token %q", why, a.r.Method, a.r.RequestURI, a.r.Header.Get("X-Fencing-Token"))
	case <-time.After(100 * time.Millisecond):
	}
}

// raised makes token the highest of key.
func (r *rig) raised(key string, token uint64) {
	r.Helper()
	if _, err := r.store.Acquire(r.Context(), []tokenstore.Mark{{Key: tokenstore.Key(key), Token: tokenstore.Token{Major: token}, Clear: true}}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) highest(key string) (uint64, bool) {
	r.Helper()
	rec, ok, err := r.store.Load(r.Context(), tokenstore.Key(key))
	if err != nil {
		r.Fatal(err)
	}
	return rec.Highest.Major, ok
}

// conn is a client's connection, spoken to byte by byte.
type conn struct {
	*rig
	net.Conn
	br *bufio.Reader
}

func (r *rig) dial() *conn {
	r.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.Fatal(err)
	}
	if r.overTLS() {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	r.Cleanup(func() { _ = c.Close() })
	return &conn{r, c, bufio.NewReader(c)}
}

// send writes raw bytes; \n stands for CRLF.
func (c *conn) send(raw string) *conn {
	c.Helper()
	if _, err := io.WriteString(c.Conn, strings.ReplaceAll(raw, "\n", "\r\n")); err != nil {
		c.Fatal(err)
	}
	return c
}

// put sends a PUT with a token and a body.
func (c *conn) put(token, body string) *conn {
	c.Helper()
	return c.send(fmt.Sprintf("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: %s\nContent-Length: %d\n\n%s", token, len(body), body))
}

// reply is an answer with its body read.
type reply struct {
	*http.Response
	body string
	err  error // of reading the body
}

// receive reads one answer.
func (c *conn) receive() *reply {
	c.Helper()
	_ = c.SetReadDeadline(time.Now().Add(soon))
	res, err := http.ReadResponse(c.br, nil)
	if err != nil {
		c.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(res.Body)
	return &reply{res, string(body), err}
}

// problem is the answer's problem; the answer must be one.
func (c *conn) problem(r *reply) wire.Problem {
	c.Helper()
	var p wire.Problem
	if ct := r.Header.Get("Content-Type"); ct != "application/problem+json" {
		c.Fatalf("%s %q is no problem: %s", r.Status, ct, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		c.Fatalf("%v: %s", err, r.body)
	}
	return p
}

// eventually waits until f holds.
func (r *rig) eventually(what string, f func() bool) {
	r.Helper()
	for end := time.Now().Add(soon); time.Now().Before(end); {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.Fatalf("never: %s", what)
}
