package proxy

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// A request that names two resources in its body holds both, and its body
// arrives as it was sent.
func TestTwoKeys(t *testing.T) {
	r := newRig(t, nil)
	const body = `{"from": 42, "to": "7"}`
	a := r.dial().send(transfer("X-Fencing-Token: 5\nX-Fencing-Token-To: 9", body))
	w := r.next()
	if w.body != body || w.r.Header.Get("X-Fencing-Token-To") != "9" {
		t.Errorf("%q %v", w.body, w.r.Header)
	}
	b := r.dial().put("6", "") // on account:42
	r.nothing("account:42 is held")
	w.answer()
	r.next().answer()
	for _, c := range []*conn{a, b} {
		if res := c.receive(); res.StatusCode != 200 {
			t.Error(res.Status)
		}
	}
	for key, want := range map[string]uint64{"account:42": 6, "account:7": 9} {
		if n, _ := r.highest(key); n != want {
			t.Errorf("%s: %d, want %d", key, n, want)
		}
	}
}

// Two keys that come out as one are one, where their tokens are equal.
func TestTwoKeysThatAreOne(t *testing.T) {
	r := newRig(t, nil)
	c := r.dial().send(transfer("X-Fencing-Token: 5\nX-Fencing-Token-To: 5", `{"from":42,"to":42}`))
	r.next().answer()
	if res := c.receive(); res.StatusCode != 200 {
		t.Errorf("%s %s", res.Status, res.body)
	}
}

// reads: fence: a read that carries a token raises and drains before it is
// sent, and holds nothing; one that carries none passes.
func TestFencedRead(t *testing.T) {
	r := newRig(t, nil)
	a := r.dial().send(put("/reads"))
	w := r.next()
	b := r.dial().send("GET /reads HTTP/1.1\nHost: a\nX-Fencing-Token: 8\n\n")
	r.nothing("the read waits for the older write")
	c := r.dial().send("GET /reads HTTP/1.1\nHost: a\n\n")
	plain := r.next()
	if plain.r.Method != "GET" || plain.r.Header.Get("X-Fencing-Token") != "" {
		t.Errorf("%v", plain.r.Header)
	}
	plain.answer()
	if res := c.receive(); res.Header.Get("Fencing-Result") != "" {
		t.Errorf("%v", res.Header)
	}
	w.answer()
	a.receive()
	read := r.next()
	if n := r.gate.Counts(); n.InFlight != 0 {
		t.Errorf("the read holds its key: %+v", n)
	}
	old := r.dial().send(put("/reads")) // token 7: between the read and its write
	if p := old.problem(old.receive()); p.Name() != wire.StaleToken {
		t.Errorf("%+v", p)
	}
	read.answer()
	if res := b.receive(); res.StatusCode != 200 || res.Header.Get("Fencing-Result") != "admitted" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
}

// A gRPC call is refused by a status of its own kind.
func TestGRPCRefusal(t *testing.T) {
	r := newRig(t, nil)
	r.raised("account:42", 8)
	c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 7\nContent-Type: application/grpc+proto\nContent-Length: 0\n\n")
	res := c.receive()
	if res.StatusCode != 200 || res.Header.Get("Grpc-Status") != "9" || res.Header.Get("Content-Type") != "application/grpc" ||
		res.Header.Get("Fencing-Result") != "rejected;reason=stale-token" || res.body != "" {
		t.Errorf("%s %v %q", res.Status, res.Header, res.body)
	}
}

// In hex, 1F and 0x1f are one token.
func TestHexTokens(t *testing.T) {
	r := newRig(t, nil)
	for _, text := range []string{"1F", "0x1f", "000000000000001f"} {
		c := r.dial().send(strings.Replace(put("/zxid"), ": 7", ": "+text, 1))
		w := r.next()
		if got := w.r.Header.Get("X-Fencing-Token"); got != text {
			t.Errorf("%s arrives as %s", text, got)
		}
		w.answer()
		if res := c.receive(); res.StatusCode != 200 {
			t.Errorf("%s: %s %s", text, res.Status, res.body)
		}
	}
}
