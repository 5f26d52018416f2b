package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// answerRow is a request that the proxy answers by itself.
type answerRow struct {
	name      string
	request   string // raw; \n stands for CRLF
	status    int
	problem   wire.Name
	retryable bool
	detail    string                                 // a part of it
	before    func(r *rig)                           // what has happened before
	change    func(o *Options, rules []Rule)         // of the proxy
	check     func(r *rig, p wire.Problem, a *reply) // what else holds
}

const fresh = "PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nContent-Length: 0\n\n"

// put7 is a PUT with token 7 and more header lines.
func put7(lines ...string) string {
	return "PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 7\n" + strings.Join(append(lines, "Content-Length: 0"), "\n") + "\n\n"
}

func put(target string) string {
	return "PUT " + target + " HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nContent-Length: 0\n\n"
}

func transfer(headers, body string) string {
	return fmt.Sprintf("POST /transfer HTTP/1.1\nHost: a\n%s\nContent-Type: application/json\nContent-Length: %d\n\n%s", headers, len(body), body)
}

var answers = []answerRow{
	{name: "stale", request: fresh, status: 409, problem: wire.StaleToken, detail: "take it again",
		before: func(r *rig) { r.raised("account:42", 8) },
		check: func(r *rig, p wire.Problem, _ *reply) {
			if p.Highest != "8" || p.Token != "7" || p.Key != "account:42" || p.Rule != "accounts" {
				r.Errorf("%+v", p)
			}
		}},
	{name: "stale, highest kept secret", request: fresh, status: 409, problem: wire.StaleToken,
		before: func(r *rig) { r.raised("account:42", 8) },
		change: func(_ *Options, rules []Rule) { rules[0].DiscloseHighest = false },
		check: func(r *rig, p wire.Problem, a *reply) {
			if p.Highest != "" || strings.Contains(a.body, "8") {
				r.Errorf("the highest token is told: %s", a.body)
			}
		}},
	{name: "no token", request: "PUT /accounts/42 HTTP/1.1\nHost: a\nContent-Length: 0\n\n", status: 428, problem: wire.TokenRequired, detail: "X-Fencing-Token"},
	{name: "empty token", request: strings.Replace(fresh, ": 7", ":", 1), status: 400, problem: wire.TokenMalformed, detail: "empty"},
	{name: "negative token", request: strings.Replace(fresh, "7", "-7", 1), status: 400, problem: wire.TokenMalformed, detail: "digit"},
	{name: "hex token", request: strings.Replace(fresh, "7", "0x7", 1), status: 400, problem: wire.TokenMalformed},
	{name: "token out of range", request: strings.Replace(fresh, "7", "18446744073709551616", 1), status: 400, problem: wire.TokenMalformed, detail: "too large"},
	{name: "folded token line", request: strings.Replace(fresh, "7", "7\n 8", 1), status: 400, problem: wire.TokenMalformed},
	{name: "two token lines", request: put7("X-Fencing-Token: 7"), status: 400, problem: wire.TokenAmbiguous},
	{name: "two token lines in other case", request: put7("x-fencing-token: 8"), status: 400, problem: wire.TokenAmbiguous},
	{name: "a list of tokens", request: strings.Replace(fresh, "7", "7, 8", 1), status: 400, problem: wire.TokenAmbiguous},
	{name: "header alias", request: put7("X_Fencing_Token: 9"), status: 400, problem: wire.HeaderAlias},
	{name: "connection names the token", request: put7("Connection: X-Fencing-Token"), status: 400, problem: wire.ConnectionOption},
	{name: "escaped letter in the path", request: put("/accounts/%34%32"), status: 400, problem: wire.PathNotCanonical},
	{name: "doubled slash", request: put("//accounts/42"), status: 400, problem: wire.PathNotCanonical},
	{name: "letter case of static text", request: put("/ACCOUNTS/42"), status: 400, problem: wire.PathAlias},
	{name: "absolute form", request: put("http://a/accounts/42"), status: 400, problem: wire.PathNotCanonical},
	{name: "upgrade", request: put7("Connection: Upgrade", "Upgrade: TLS/1.0"), status: 400, problem: wire.UpgradeNotAllowed},
	{name: "CONNECT", request: "CONNECT a:80 HTTP/1.1\nHost: a:80\n\n", status: 405, problem: wire.MethodNotAllowed},
	{name: "OPTIONS *", request: "OPTIONS * HTTP/1.1\nHost: a\n\n", status: 400, problem: wire.PathNotCanonical},
	{name: "a write that no rule covers", request: put("/other"), status: 403, problem: wire.WriteNotCovered},
	{name: "a method that the rule leaves out", request: put("/jobs"), status: 403, problem: wire.WriteNotCovered},
	{name: "an unknown method is a write", request: strings.Replace(put("/other"), "PUT", "PURGE", 1), status: 403, problem: wire.WriteNotCovered},
	{name: "a lower-case method is a write", request: strings.Replace(put("/other"), "PUT", "get", 1), status: 403, problem: wire.WriteNotCovered},
	{name: "key part missing", request: put("/query"), status: 400, problem: wire.KeyUnresolvable},
	{name: "key part doubled", request: put("/query?id=1&id=2"), status: 400, problem: wire.KeyUnresolvable},
	{name: "no holder", request: put("/held"), status: 428, problem: wire.TokenRequired, detail: "X-Holder"},
	{name: "two holders", request: "PUT /held HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nX-Holder: A\nX-Holder: B\nContent-Length: 0\n\n", status: 400, problem: wire.TokenAmbiguous, detail: "X-Holder"},
	{name: "collision", request: "PUT /held HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nX-Holder: B\nContent-Length: 0\n\n", status: 409, problem: wire.TokenCollision,
		before: func(r *rig) {
			c := r.dial().send("PUT /held HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nX-Holder: A\nContent-Length: 0\n\n")
			r.next().answer()
			c.receive()
		},
		check: func(r *rig, p wire.Problem, _ *reply) {
			if p.Highest != "7" || p.Token != "7" || p.Key != "held" {
				r.Errorf("%+v", p)
			}
		}},
	{name: "a missing token of two", request: transfer("X-Fencing-Token: 7", `{"from":1,"to":2}`), status: 428, problem: wire.TokenRequired, detail: "X-Fencing-Token-To"},
	{name: "one key, two tokens", request: transfer("X-Fencing-Token: 7\nX-Fencing-Token-To: 8", `{"from":42,"to":42}`), status: 400, problem: wire.TokenAmbiguous, detail: "equal"},
	{name: "one of two keys is stale", request: transfer("X-Fencing-Token: 7\nX-Fencing-Token-To: 7", `{"from":42,"to":2}`), status: 409, problem: wire.StaleToken,
		before: func(r *rig) { r.raised("account:2", 8) },
		check: func(r *rig, p wire.Problem, _ *reply) {
			if p.Key != "account:2" || p.Highest != "8" {
				r.Errorf("%+v", p)
			}
		}},
	{name: "the key's body is too large", request: transfer("X-Fencing-Token: 7\nX-Fencing-Token-To: 7", `{"from":42,"to":"`+strings.Repeat("x", 2000)+`"}`), status: 413, problem: wire.BodyTooLarge},
	{name: "the key is not in the body", request: transfer("X-Fencing-Token: 7\nX-Fencing-Token-To: 7", `{"from":42}`), status: 400, problem: wire.KeyUnresolvable},
	{name: "above max_token", request: strings.Replace(put("/bounded"), "7", "1001", 1), status: 403, problem: wire.TokenImplausible},
	{name: "above max_jump", request: strings.Replace(put("/bounded"), "7", "20", 1), status: 403, problem: wire.TokenImplausible,
		before: func(r *rig) { r.raised("bounded", 9) }},
	{name: "stale hex with epoch", request: strings.Replace(put("/zxid"), ": 7", ": 0x1f", 1), status: 409, problem: wire.StaleToken,
		before: func(r *rig) {
			c := r.dial().send(strings.Replace(put("/zxid"), ": 7", ": 2A", 1))
			r.next().answer()
			c.receive()
		},
		check: func(r *rig, p wire.Problem, _ *reply) {
			if p.Highest != "3/0x2a" || p.Epoch != 3 || p.Token != "0x1f" {
				r.Errorf("%+v", p)
			}
		}},
	{name: "a stale read", request: "GET /reads HTTP/1.1\nHost: a\nX-Fencing-Token: 7\n\n", status: 409, problem: wire.StaleToken,
		before: func(r *rig) { r.raised("reads", 8) }},
	{name: "store fails", request: fresh, status: 503, problem: wire.StoreUnavailable, retryable: true,
		before: func(r *rig) { r.store.Fail(tokenstore.ErrUnavailable) }},
	{name: "store fails, stale token", request: fresh, status: 503, problem: wire.StoreUnavailable, retryable: true,
		before: func(r *rig) { r.raised("account:42", 8); r.store.Fail(tokenstore.ErrUnavailable) }},
	{name: "damaged record", request: fresh, status: 503, problem: wire.StoreUnavailable, retryable: true,
		before: func(r *rig) { r.store.Damage("account:42") }},
	{name: "stopping", request: fresh, status: 503, problem: wire.ShuttingDown, retryable: true,
		before: func(r *rig) { r.gate.Stop() }},
	{name: "no room for the body", request: strings.Replace(fresh, "Length: 0", "Length: 9", 1) + "123456789", status: 503, problem: wire.Overloaded, retryable: true,
		change: func(o *Options, _ []Rule) { o.MaxBuffered = 8 }},
	{name: "a key too many", request: fresh, status: 503, problem: wire.TooManyKeys, retryable: true, detail: "max_keys",
		before: func(r *rig) {
			r.raised("account:1", 8)
			r.gate.Change(gate.Options{MaxKeys: 1})
		}},
	{name: "drain timeout", request: fresh, status: 503, problem: wire.DrainTimeout, retryable: true,
		before: func(r *rig) {
			r.dial().put("6", "")
			r.next()
		},
		change: func(_ *Options, rules []Rule) { rules[0].DrainTimeout = time.Second }},
	{name: "too many waiting", request: fresh, status: 503, problem: wire.Overloaded, retryable: true,
		before: func(r *rig) {
			r.dial().put("5", "")
			r.next()
			for range 3 {
				r.dial().put("7", "")
			}
			r.eventually("three wait", func() bool { return r.gate.Counts().Waiting == 3 })
		}},
}

// Every answer of the proxy's own: the status, the problem, that nothing was
// forwarded, and that a refused request has raised nothing.
func TestAnswers(t *testing.T) {
	for _, tt := range answers {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.change)
			if tt.before != nil {
				tt.before(r)
			}
			c := r.dial().send(tt.request)
			a := c.receive()
			p := c.problem(a)
			if a.StatusCode != tt.status || p.Status != tt.status || p.Type != "urn:fenceproxy:problem:"+string(tt.problem) ||
				p.Retryable != tt.retryable || p.Title == "" || p.Detail == "" || p.Forwarded != wire.ForwardedNo {
				t.Errorf("%s: %s", a.Status, a.body)
			}
			if !strings.Contains(p.Detail, tt.detail) {
				t.Errorf("detail %q does not say %q", p.Detail, tt.detail)
			}
			if got, want := a.Header.Get("Fencing-Result"), "rejected;reason="+string(tt.problem); got != want {
				t.Errorf("Fencing-Result is %q, want %q", got, want)
			}
			if a.Header.Get("Fencing-Forwarded") != "no" || a.Header.Get("Cache-Control") != "no-store" || (a.StatusCode == 503) != (a.Header.Get("Retry-After") != "") {
				t.Errorf("header: %v", a.Header)
			}
			r.nothing("a refused request was forwarded")
			r.store.Fail(nil)
			if tt.problem != wire.DrainTimeout && tt.problem != wire.StoreUnavailable && tt.name != "too many waiting" && tt.name != "collision" {
				if n, _ := r.highest("account:42"); n == 7 || n == 9 {
					t.Errorf("a refused request raised its key to %d", n)
				}
			}
			if tt.check != nil {
				tt.check(r, p, a)
			}
		})
	}
}

// Every problem that exists is shown here, with the upstream's failures, or by
// the lease API.
func TestEveryProblemHasARow(t *testing.T) {
	shown := map[wire.Name]bool{wire.UpstreamUnreachable: true, wire.OutcomeUnknown: true} // upstream_test.go

	for _, n := range wire.LeaseNames() {
		shown[n] = true
	}
	for _, a := range answers {
		shown[a.problem] = true
	}
	for _, n := range wire.Names() {
		if !shown[n] {
			t.Errorf("no row for %s", n)
		}
	}
}

func TestCollisionIsAnswered(t *testing.T) {
	x := &exchange{}
	p := x.problem(fmt.Errorf("store: %w", &tokenstore.CollisionError{Key: "k", Holder: "a", Current: "b"}))
	if p.Name() != wire.TokenCollision || p.Status != 409 || p.Retryable {
		t.Errorf("%+v", p)
	}
}

// An error that nobody thought of fails closed.
func TestUnknownErrorFailsClosed(t *testing.T) {
	x := &exchange{}
	if p := x.problem(fmt.Errorf("surprise")); p.Name() != wire.StoreUnavailable || p.Status != 503 {
		t.Errorf("%+v", p)
	}
}
