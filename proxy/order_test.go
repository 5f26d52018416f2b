package proxy

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Of several things that are wrong with a request, the first of the contract's
// order is told, and the key is not raised.
func TestOrderOfChecks(t *testing.T) {
	const to = "\nX-Fencing-Token-To: "
	large := `{"from":42,"to":"` + strings.Repeat("x", 2000)
	for _, tt := range []struct {
		name    string
		request string
		want    wire.Name
		before  func(r *rig)
	}{
		{name: "target, alias", request: strings.Replace(put7("X_Fencing_Token: 7"), "/acc", "//acc", 1), want: wire.PathNotCanonical},
		{name: "alias, token form", request: strings.Replace(put("/ACCOUNTS/42"), ": 7", ":", 1), want: wire.PathAlias},
		{name: "Connection, token present", request: "PUT /accounts/42 HTTP/1.1\nHost: a\nConnection: X-Fencing-Token\nContent-Length: 0\n\n", want: wire.ConnectionOption},
		{name: "rule, token present", request: "PUT /other HTTP/1.1\nHost: a\nContent-Length: 0\n\n", want: wire.WriteNotCovered},
		{name: "token present, form", request: transfer("X-Fencing-Token: x", `{"from":42,"to":1}`), want: wire.TokenRequired},
		{name: "holder present, form", request: strings.Replace(put("/held"), ": 7", ": x", 1), want: wire.TokenRequired},
		{name: "form, body size", request: transfer("X-Fencing-Token: 7"+to+"x", large+`"}`), want: wire.TokenMalformed},
		{name: "body size, key", request: transfer("X-Fencing-Token: 7"+to+"7", large), want: wire.BodyTooLarge},
		{name: "form, key", request: strings.Replace(put("/query"), ": 7", ": x", 1), want: wire.TokenMalformed},
		{name: "key, bounds", request: strings.Replace(put("/query"), ": 7", ": 1001", 1), want: wire.KeyUnresolvable},
		{name: "bounds, stale", request: strings.Replace(put("/bounded"), ": 7", ": 1001", 1), want: wire.TokenImplausible,
			before: func(r *rig) { r.raised("bounded", 2000) }},
		{name: "stale, collision", request: "PUT /held HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nX-Holder: B\nContent-Length: 0\n\n", want: wire.StaleToken,
			before: func(r *rig) { r.raised("held", 8) }},
		{name: "stale, overloaded", request: strings.Replace(fresh, ": 7", ": 6", 1), want: wire.StaleToken, before: fullQueue("")},
		{name: "collision, overloaded", request: "PUT /held HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nX-Holder: B\nContent-Length: 0\n\n", want: wire.TokenCollision,
			before: fullQueue("X-Holder: A\n")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(_ *Options, rules []Rule) {
				rules[2].MaxToken, rules[2].HasMaxToken = tokenstore.Token{Major: 1000}, true
			})
			if tt.before != nil {
				tt.before(r)
			}
			c := r.dial().send(tt.request)
			a := c.receive()
			if p := c.problem(a); p.Name() != tt.want {
				t.Errorf("%s: %s, want %s", a.Status, a.body, tt.want)
			}
			r.nothing("it was forwarded")
			for _, key := range []tokenstore.Key{"account:42", "bounded", "held"} {
				rec, ok, err := r.store.Load(r.Context(), key)
				if err != nil || ok && tt.before == nil {
					t.Errorf("%s was raised to %v: %v", key, rec.Highest, err)
				}
			}
		})
	}
}

// fullQueue has as many writes with token 7 wait as may, for one with token 5:
// on the key of held where they have a holder, else on that of accounts.
func fullQueue(holder string) func(r *rig) {
	return func(r *rig) {
		target, key := "/accounts/42", "account:42"
		if holder != "" {
			target, key = "/held", "held"
		}
		send := func(token string) {
			r.dial().send("PUT " + target + " HTTP/1.1\nHost: a\nX-Fencing-Token: " + token + "\n" + holder + "Content-Length: 0\n\n")
		}
		send("5")
		r.next()
		for range 3 {
			send("7")
		}
		r.eventually("three wait", func() bool { return r.gate.Counts().Waiting == 3 })
		r.eventually("7 is on record", func() bool { n, _ := r.highest(key); return n == 7 })
	}
}
