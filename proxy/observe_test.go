package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// optional makes every fenced rule take writes without a token.
func optional(_ *Options, rules []Rule) {
	for i := range rules {
		rules[i].Optional = rules[i].Fenced
	}
}

// observing makes every fenced rule only look on.
func observing(o *Options, rules []Rule) {
	o.ForwardUnmatched = true
	for i := range rules {
		rules[i].Observe = rules[i].Fenced
	}
}

const bare = "PUT /accounts/42 HTTP/1.1\nHost: a\nContent-Length: 1\n\nx"

// A write without a token passes, a fenced one waits for it, and its key has
// to be one all the same.
func TestOptional(t *testing.T) {
	r := newRig(t, optional)
	a := r.dial().send(bare)
	u := r.next()
	if u.r.Header.Get("X-Fencing-Token") != "" {
		t.Errorf("%v", u.r.Header)
	}
	b := r.dial().put("7", "x")
	r.nothing("a write without a token is in flight")
	u.answer()
	w := r.next()
	c := r.dial().send(bare) // beside it
	r.next().answer()
	w.answer()
	for _, c := range []*conn{a, b, c} {
		if res := c.receive(); res.StatusCode != 200 || res.Header.Get("Fencing-Result") != "admitted" {
			t.Errorf("%s %v", res.Status, res.Header)
		}
	}
	r.dial().send("PUT /query HTTP/1.1\nHost: a\nContent-Length: 0\n\n").refused(wire.KeyUnresolvable)
	r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token:\nContent-Length: 0\n\n").refused(wire.TokenMalformed)
	r.dial().send("PUT //accounts/42 HTTP/1.1\nHost: a\nContent-Length: 0\n\n").refused(wire.PathNotCanonical)
	r.dial().put("6", "").refused(wire.StaleToken)
}

// With a holder's header, only a write with a token needs it; with two tokens,
// one may be left out.
func TestOptionalParts(t *testing.T) {
	r := newRig(t, optional)
	c := r.dial().send("PUT /held HTTP/1.1\nHost: a\nContent-Length: 0\n\n")
	r.next().answer()
	if res := c.receive(); res.StatusCode != 200 {
		t.Errorf("%s %s", res.Status, res.body)
	}
	r.dial().send("PUT /held HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 0\n\n").refused(wire.TokenRequired)

	c = r.dial().send(transfer("X-Fencing-Token-To: 9", `{"from":1,"to":2}`))
	w := r.next()
	one := r.dial().send("PUT /accounts/1 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 0\n\n")
	r.nothing("account:1 has a write without a token in flight")
	w.answer()
	r.next().answer()
	for _, c := range []*conn{c, one} {
		if res := c.receive(); res.StatusCode != 200 {
			t.Errorf("%s %s", res.Status, res.body)
		}
	}
	if n, _ := r.highest("account:2"); n != 9 {
		t.Errorf("account:2 is at %d", n)
	}
}

// refused reads one answer, which must be the problem, and nothing forwarded.
func (c *conn) refused(name wire.Name) {
	c.Helper()
	res := c.receive()
	if res.Header.Get("Fencing-Result") != wire.ResultRejected(name) || res.Header.Get("Fencing-Forwarded") != "no" {
		c.Errorf("%s %v %s, want %s", res.Status, res.Header, res.body, name)
	}
}

// The client of a write without a token does not hold a fenced one up: its
// upload is cut once that one waits, and nobody knows what became of it.
func TestOptionalUploadIsCut(t *testing.T) {
	r := newRig(t, optional)
	arrived := make(chan struct{}, 1)
	r.api.serve = func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Fencing-Token") == "" {
			arrived <- struct{}{}
		}
		_, _ = io.ReadAll(req.Body)
	}
	a := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nContent-Length: 100000\n\n" + strings.Repeat("x", 2000))
	<-arrived
	start := time.Now()
	b := r.dial().put("7", "x")
	res := a.receive()
	if p := a.problem(res); res.StatusCode != 502 || p.Name() != wire.OutcomeUnknown || p.Forwarded != wire.ForwardedUnknown || res.Header.Get("Fencing-Forwarded") != "unknown" {
		t.Errorf("%s %+v", res.Status, p)
	}
	if res := b.receive(); res.StatusCode != 200 || time.Since(start) < testSettle {
		t.Errorf("%s after %v", res.Status, time.Since(start))
	}
}

// What is observed is forwarded as it came, whatever is wrong with it, and the
// answer says what would have been.
func TestObserved(t *testing.T) {
	r := newRig(t, observing)
	r.api.serve = func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		fmt.Fprintf(w, "%s %s %s", req.Method, req.RequestURI, body)
	}
	r.raised("account:9", 9)
	put := func(target, headers, body string) string {
		if headers != "" {
			headers += "\n"
		}
		return fmt.Sprintf("PUT %s HTTP/1.1\nHost: a\n%sContent-Length: %d\n\n%s", target, headers, len(body), body)
	}
	big := strings.Repeat("x", 5000)
	for _, row := range []struct {
		name, send, result, echo string
	}{
		{"admitted", put("/accounts/42", "X-Fencing-Token: 7", "x"), "admitted", "PUT /accounts/42 x"},
		{"stale", put("/accounts/9", "X-Fencing-Token: 7", "x"), "would-reject;reason=stale-token", "PUT /accounts/9 x"},
		{"no token", put("/accounts/9", "", "x"), "would-reject;reason=token-required", "PUT /accounts/9 x"},
		{"no token", put("/accounts/9", "X-Fencing-Token: 0x", "x"), "would-reject;reason=token-malformed", "PUT /accounts/9 x"},
		{"two tokens", put("/accounts/9", "X-Fencing-Token: 1\nX-Fencing-Token: 2", ""), "would-reject;reason=token-ambiguous", "PUT /accounts/9 "},
		{"no key", put("/query?id=1&id=2", "X-Fencing-Token: 1", "x"), "would-reject;reason=key-unresolvable", "PUT /query?id=1&id=2 x"},
		{"neither", put("/query", "", "x"), "would-reject;reason=token-required", "PUT /query x"},
		{"spelling", put("//accounts/%34%32", "X-Fencing-Token: 1", "x"), "would-reject;reason=path-not-canonical", "PUT //accounts/%34%32 x"},
		{"alias", put("/ACCOUNTS/42", "X-Fencing-Token: 1", "x"), "would-reject;reason=path-alias", "PUT /ACCOUNTS/42 x"},
		{"header alias", put("/accounts/42", "X_Fencing_Token: 1", "x"), "would-reject;reason=header-alias", "PUT /accounts/42 x"},
		{"connection", put("/accounts/42", "X-Fencing-Token: 8\nConnection: X-Fencing-Token", "x"), "would-reject;reason=connection-option", "PUT /accounts/42 x"},
		{"implausible", put("/bounded", "X-Fencing-Token: 1001", "x"), "would-reject;reason=token-implausible", "PUT /bounded x"},
		{"body too large", put("/transfer", "X-Fencing-Token: 1\nX-Fencing-Token-To: 1\nContent-Type: application/json", big), "would-reject;reason=body-too-large", "PUT /transfer " + big},
		{"body too large, in chunks", "PUT /transfer HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nX-Fencing-Token-To: 1\nContent-Type: application/json\nTransfer-Encoding: chunked\n\n" + fmt.Sprintf("%x\n%s\n0\n\n", len(big), big), "would-reject;reason=body-too-large", "PUT /transfer " + big},
		{"large body", put("/accounts/42", "X-Fencing-Token: 7", big), "admitted", "PUT /accounts/42 " + big},
		{"transfer", transfer("X-Fencing-Token: 8\nX-Fencing-Token-To: 9", `{"from":42,"to":8}`), "admitted", `POST /transfer {"from":42,"to":8}`},
		{"two for one key", transfer("X-Fencing-Token: 8\nX-Fencing-Token-To: 9", `{"from":42,"to":42}`), "would-reject;reason=token-ambiguous", `POST /transfer {"from":42,"to":42}`},
		{"not covered", put("/elsewhere", "", "x"), "", "PUT /elsewhere x"},
		{"unfenced", put("/login", "", "x"), "", "PUT /login x"},
	} {
		c := r.dial().send(row.send)
		res := c.receive()
		if res.StatusCode != 200 || res.Header.Get("Fencing-Result") != row.result || res.body != row.echo {
			t.Errorf("%s: %s %q %.60q, want %q %.60q", row.name, res.Status, res.Header.Get("Fencing-Result"), res.body, row.result, row.echo)
		}
		if row.result != "" && res.Header.Get("Fencing-Forwarded") != "yes" {
			t.Errorf("%s: %v", row.name, res.Header)
		}
	}
	for key, want := range map[string]uint64{"account:42": 8, "account:8": 9, "account:9": 9, "bounded": 0} {
		if n, _ := r.highest(key); n != want {
			t.Errorf("%s is at %d, want %d", key, n, want)
		}
	}
}

// It waits for nothing: neither for an older write, nor for its own body, nor
// for a store that fails.
func TestObservedWaitsForNothing(t *testing.T) {
	r := newRig(t, observing)
	a := r.dial().put("7", "x")
	w := r.next()
	b := r.dial().put("8", "x")
	r.next().answer()
	if res := b.receive(); res.Header.Get("Fencing-Result") != "would-wait" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
	w.answer()
	if res := a.receive(); res.Header.Get("Fencing-Result") != "admitted" || res.StatusCode != 200 {
		t.Errorf("%s %v", res.Status, res.Header)
	}
	got := make(chan string)
	r.api.serve = func(w http.ResponseWriter, req *http.Request) {
		buf := make([]byte, 10)
		n, _ := req.Body.Read(buf)
		got <- string(buf[:n])
		_, _ = io.ReadAll(req.Body)
	}
	c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 8\nContent-Length: 6\n\nabc")
	if first := <-got; first != "abc" {
		t.Errorf("%q", first)
	}
	c.send("def")
	if res := c.receive(); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	r.store.Fail(tokenstore.ErrUnavailable)
	d := r.dial().put("9", "x")
	<-got
	if res := d.receive(); res.StatusCode != 200 || res.Header.Get("Fencing-Result") != "would-reject;reason=store-unavailable" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
}

// A client that has closed its side gets its answer, as it would without the
// proxy.
func TestObservedHalfClosed(t *testing.T) {
	r := newRig(t, observing)
	c := r.dial().put("7", strings.Repeat("x", 5000))
	_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
	w := r.next()
	time.Sleep(50 * time.Millisecond)
	w.answer()
	if res := c.receive(); res.StatusCode != 200 {
		t.Error(res.Status)
	}
}

// Where one rule enforces, or writes that no rule covers are refused, a
// spelling that servers may take for anything is refused under rules that
// observe, too; a header's is that rule's own matter.
func TestObservedBesideEnforced(t *testing.T) {
	alias := "PUT /accounts/%34%32 HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nContent-Length: 0\n\n"
	for name, change := range map[string]func(o *Options, rules []Rule){
		"one enforces": func(o *Options, rules []Rule) {
			observing(o, rules)
			rules[3].Observe = false
		},
		"uncovered writes are refused": func(o *Options, rules []Rule) {
			observing(o, rules)
			o.ForwardUnmatched = false
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			r.dial().send(alias).refused(wire.PathNotCanonical)
			c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX_Fencing_Token: 7\nContent-Length: 0\n\n")
			r.next().answer()
			if res := c.receive(); res.Header.Get("Fencing-Result") != "would-reject;reason=header-alias" {
				t.Errorf("%s %v", res.Status, res.Header)
			}
		})
	}
	r := newRig(t, func(o *Options, rules []Rule) {
		observing(o, rules)
		rules[0].Observe = false
	})
	r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX_Fencing_Token: 7\nContent-Length: 0\n\n").refused(wire.HeaderAlias)
	r.dial().put("x", "").refused(wire.TokenMalformed)
}

// What passes the fence of no rule does not pass because one observes.
func TestObservedIsNoTunnel(t *testing.T) {
	r := newRig(t, observing)
	r.dial().send("GET /accounts/42 HTTP/1.1\nHost: a\nUpgrade: TLS/1.0\nConnection: Upgrade\nX-Fencing-Token: 7\n\n").refused(wire.UpgradeNotAllowed)
	r.dial().send("CONNECT a:80 HTTP/1.1\nHost: a:80\n\n").refused(wire.MethodNotAllowed)
}

// Bodies for which there is no room go on as they come.
func TestObservedWithoutRoom(t *testing.T) {
	r := newRig(t, func(o *Options, rules []Rule) {
		observing(o, rules)
		o.MaxBuffered = 3
	})
	c := r.dial().send(transfer("X-Fencing-Token: 8\nX-Fencing-Token-To: 9", `{"from":42,"to":8}`))
	w := r.next()
	if w.body != `{"from":42,"to":8}` {
		t.Errorf("%q", w.body)
	}
	w.answer()
	if res := c.receive(); res.Header.Get("Fencing-Result") != "would-reject;reason=overloaded" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
}

// Where nothing enforces, what route refuses goes on, whatever rule it might
// have met, or none.
func TestObservedStray(t *testing.T) {
	r := newRig(t, observing)
	r.api.serve = func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.ReadAll(req.Body)
		fmt.Fprint(w, req.RequestURI)
	}
	for _, line := range []string{
		"PUT /elsewhere X_Fencing_Token:7",
		"PUT /login X_Fencing_Token:7",
		"PUT /login/ A:b", "PUT /LOGIN A:b", "PUT //login A:b", "PUT /log%69n A:b",
		"PUT /login Connection:Content-Type",
		"PUT /static//../y A:b",
		"POST /jobs?_method=DELETE X-Fencing-Token:3",
		"PUT /accounts/a;b X-Fencing-Token:3", "PUT /accounts/%00 X-Fencing-Token:3", "PUT /accounts/../login X-Fencing-Token:3",
		"GET /reads/ X-Fencing-Token:3", "GET /elsewhere Upgrade:h2c",
	} {
		part := strings.Fields(line)
		name, value, _ := strings.Cut(part[2], ":")
		c := r.dial().send(fmt.Sprintf("%s %s HTTP/1.1\nHost: a\n%s: %s\nContent-Length: 1\n\nx", part[0], part[1], name, value))
		if res := c.receive(); res.StatusCode != 200 || res.body != part[1] {
			t.Errorf("%s: %s %s", line, res.Status, res.body)
		}
	}
}

// A client that pauses in a body that names the resource is forwarded all the
// same.
func TestObservedPause(t *testing.T) {
	r := newRig(t, func(o *Options, rules []Rule) { observing(o, rules); o.BodyTimeout = 50 * time.Millisecond })
	c := r.dial().send("POST /transfer HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nX-Fencing-Token-To: 2\nContent-Type: application/json\nContent-Length: 18\n\n{\"from\":42,")
	time.Sleep(150 * time.Millisecond)
	c.send(`"to":8}`)
	r.next().answer()
	if res := c.receive(); res.Header.Get("Fencing-Result") != "admitted" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
}

// An upload that was sent in full costs nobody his connection, however soon
// its answer comes.
func TestKeepAliveBehindUploads(t *testing.T) {
	for name, change := range map[string]func(o *Options, rules []Rule){"observing": observing, "enforcing": nil} {
		r := newRig(t, change)
		r.api.serve = func(w http.ResponseWriter, req *http.Request) { _, _ = io.ReadAll(req.Body) }
		c, body := r.dial(), strings.Repeat("x", 2000)
		for i := range 300 {
			if res := c.put("7", body).receive(); res.Close {
				t.Fatalf("%s: the connection is closed behind write %d", name, i)
			}
		}
	}
}

// The offer to go on in HTTP/2 is ignored, and not passed on.
func TestOfferOfH2C(t *testing.T) {
	r := newRig(t, nil)
	c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__\nContent-Length: 1\n\nx")
	w := r.next()
	if h := w.r.Header; h.Get("Upgrade") != "" || h.Get("Http2-Settings") != "" || h.Get("Connection") != "close" {
		t.Errorf("%v", h)
	}
	w.answer()
	if res := c.receive(); res.StatusCode != 200 || res.Header.Get("Upgrade") != "" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
}

// What would have been refused holds up fenced writes of another rule on the
// same key, and a stop.
func TestObservedHoldsUp(t *testing.T) {
	r := newRig(t, func(o *Options, rules []Rule) {
		observing(o, rules)
		for i := range rules {
			rules[i].Observe = rules[i].Observe && rules[i].Name == "transfer"
		}
	})
	for _, send := range []string{
		transfer("X-Fencing-Token: 1", `{"from":42,"to":8}`),
		transfer("X-Fencing-Token: 1\nX-Fencing-Token-To: 0x", `{"from":8,"to":42}`),
		transfer("X-Fencing-Token: 1\nX-Fencing-Token-To: 2", `{"from":42,"to":42}`),
	} {
		a := r.dial().send(send)
		w := r.next()
		b := r.dial().put("1", "")
		r.nothing("what is observed is in flight on the key")
		w.answer()
		r.next().answer()
		for _, c := range []*conn{a, b} {
			if res := c.receive(); res.StatusCode != 200 {
				t.Errorf("%s %s", res.Status, res.body)
			}
		}
	}
	a := r.dial().send(transfer("X-A: 1", `{"from":42}`)) // no key
	w := r.next()
	if n := r.gate.Counts().InFlight; n != 1 {
		t.Errorf("%d in flight", n)
	}
	w.answer()
	if res := a.receive(); res.Header.Get("Fencing-Result") != "would-reject;reason=token-required" {
		t.Errorf("%v", res.Header)
	}
}
