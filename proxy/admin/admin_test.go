package admin

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

func TestHealth(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if code, body := r.get(path); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := r.do(r.request("HEAD", path, "")); code != 200 {
			t.Errorf("HEAD %s: %d %s", path, code, body)
		}
	}
	r.ready = &NotReady{"the store does not answer", errors.New("the store does not answer: dial 10.1.2.3")}
	if code, body := r.get("/readyz"); code != 503 || body != "not ready: the store does not answer: dial 10.1.2.3\n" {
		t.Errorf("%d %s", code, body)
	}
	r.ready = &NotReady{Why: "stopping"}
	if code, body := r.get("/readyz"); code != 503 || body != "not ready: stopping\n" {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := r.get("/healthz"); code != 200 {
		t.Errorf("alive: %d", code)
	}
}

// A refusal of a method names those that the path takes, and what is no path is
// none for a method that nobody knows either.
func TestMethods(t *testing.T) {
	r := newRig(t)
	for target, want := range map[string]string{
		"/healthz": "GET, HEAD", "/readyz": "GET, HEAD", "/metrics": "GET", "/v1/keys": "GET", "/v1/keys/a:1": "GET, POST, DELETE", "/v1/keys/%2Fa%2Fb": "GET, POST, DELETE",
		"/v1/forget": "POST", "/v1/check?key=a:1": "GET", "/v1/export": "GET", "/v1/import": "POST",
	} {
		for _, method := range []string{"PUT", "PURGE"} {
			w := httptest.NewRecorder()
			r.handler.ServeHTTP(w, r.request(method, target, ""))
			if allow := w.Header().Get("Allow"); w.Code != 405 || allow != want {
				t.Errorf("%s %s: %d, Allow: %q, want %q", method, target, w.Code, allow, want)
			}
		}
	}
	for _, method := range []string{"PUT", "PURGE"} {
		if code, body := r.send(method, "/v1/other", ""); code != 404 {
			t.Errorf("%s: %d %s", method, code, body)
		}
	}
}

func TestKey(t *testing.T) {
	r := newRig(t)
	const key = "/a/it%27s" // as it stands in answers: the path needs one escape more
	r.enter(key, 7)
	r.enter(key, 7)
	r.enter(key, 7).Unsettle("reset")
	var st wire.KeyStatus
	r.into(&st, 200, "GET", "/v1/keys/%2Fa%2Fit%2527s", "")
	if st.Key != key || st.Rule != "a" || st.Highest != "7" || st.RaisedAt == nil || len(st.InFlight) != 1 || st.InFlight[0].Count != 2 || st.InFlight[0].Token != "7" ||
		len(st.Unsettled) != 1 || st.Unsettled[0].Why != "reset" || st.QuarantinedUntil != nil {
		t.Errorf("%+v", st)
	}
	r.enter("idle", 1).Settle()
	if code, body := r.get("/v1/keys/idle"); code != 200 || !strings.Contains(body, `"in_flight":[],"unsettled":[]`) {
		t.Errorf("%d %s", code, body)
	}
	for path, want := range map[string]int{"/v1/keys/nobody": 404, "/v1/keys/": 400, "/v1/keys/" + strings.Repeat("k", 1025): 400, "/v1/other": 404, "/v1/keys/k?rul=a": 400, "/v1/keys/k?rule=a&rule=a": 400} {
		if code, body := r.get(path); code != want {
			t.Errorf("%.20s: %d %s", path, code, body)
		}
	}
	r.store.Fail(tokenstore.ErrUnavailable)
	if code, _ := r.get("/v1/keys/idle"); code != 503 {
		t.Errorf("store down: %d", code)
	}
}

// Tokens are printed as the rule that can make the key has them, and the rule is
// to be named where that is not plain.
func TestOwner(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Rules = []Rule{{Name: "d", Fenced: true}, {Name: "h", Fenced: true, Format: tokenstore.Hex}, {Name: "d2", Fenced: true}, {Name: "none"}}
		o.Owners = func(key tokenstore.Key) []int {
			return map[tokenstore.Key][]int{"d": {0, 2, 3}, "h": {1}, "both": {0, 1}, "open": {3}}[key]
		}
	})
	for _, key := range []tokenstore.Key{"d", "h", "both", "gone"} {
		r.enter(key, 31).Settle()
	}
	for path, want := range map[string]string{
		"d": `"rule":"d","rules":["d","d2"],"highest":"31"`, "h": `"rule":"h","highest":"0x1f"`, "both": "differ in format or epoch", "both?rule=h": `"rule":"h","rules":["d","h"],"highest":"0x1f"`, "both?rule=d": `"highest":"31"`,
		"both?rule=x": "no fenced rule", "d?rule=h": "cannot make this key", "gone": "?rule=NAME", "gone?rule=h": `"highest":"0x1f"`, "h?rule=none": "no fenced rule",
	} {
		if _, body := r.get("/v1/keys/" + path); !strings.Contains(body, want) {
			t.Errorf("%s: %s", path, body)
		}
	}
	var l wire.KeyList
	r.into(&l, 200, "GET", "/v1/keys", "")
	got, _ := json.Marshal(l)
	for _, want := range []string{`"key":"both","rule":"d","highest":"31"`, `"key":"d","rule":"d","highest":"31"`, `"key":"gone","highest":"31.0"`, `"key":"h","rule":"h","highest":"0x1f"`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
}

func TestList(t *testing.T) {
	r := newRig(t)
	for _, key := range []tokenstore.Key{"a:1", "a:2", "a:3", "b"} {
		r.enter(key, 5).Settle()
	}
	var l wire.KeyList
	r.into(&l, 200, "GET", "/v1/keys?prefix=a:&limit=2", "")
	if len(l.Keys) != 2 || l.Next != "a:2" || l.Keys[1].Key != "a:2" || l.Keys[0].Highest != "5" || l.Keys[0].RaisedAt == nil || l.Keys[0].Rule != "a" {
		t.Errorf("%+v", l)
	}
	l = wire.KeyList{}
	r.into(&l, 200, "GET", "/v1/keys?prefix=a:&limit=2&after=a:2", "")
	if len(l.Keys) != 1 || l.Next != "" {
		t.Errorf("%+v", l)
	}
	l = wire.KeyList{}
	if r.into(&l, 200, "GET", "/v1/keys?prefix=zzz", ""); l.Keys == nil || len(l.Keys) > 0 {
		t.Errorf("%+v", l)
	}
	for _, q := range []string{"limit=0", "limit=1001", "limit=x", "limit=", "before=x", "limit=1&limit=2", "%zz"} {
		r.refused(wire.AdminMalformed, "GET", "/v1/keys?"+q, "")
	}
}

func TestCheck(t *testing.T) {
	r := newRig(t)
	r.enter("a:1", 7).Settle()
	var c wire.CheckReport
	r.into(&c, 200, "GET", "/v1/check?key=a:1&token=007", "")
	if c.Token != "7" || c.Highest != "7" || c.Rule != "a" {
		t.Errorf("%+v", c)
	}
	r.into(&c, 200, "GET", "/v1/check?key=a:new&token=1", "")
	if p := r.refused(wire.StaleToken, "GET", "/v1/check?key=a:1&token=6", ""); p.Status != 409 || p.Highest != "7" || p.Key != "a:1" || p.Token != "6" {
		t.Errorf("%+v", p)
	}
	r.refused(wire.TokenMalformed, "GET", "/v1/check?key=a:1&token=-1", "")
	r.refused(wire.TokenMalformed, "GET", "/v1/check?key=a:1", "")
	r.refused(wire.AdminMalformed, "GET", "/v1/check?token=1", "")
	if h, _ := r.highest("a:1"); h.Major != 7 {
		t.Errorf("it raised to %v", h)
	}
	if _, ok := r.highest("a:new"); ok {
		t.Error("it made a record")
	}
}

// A browser that was led here by a foreign name is kept out; probes call the pod
// by its address, and learn one word.
func TestForeignHost(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Hosts = []string{"fence.example"} })
	for host, want := range map[string]int{"localhost:9901": 200, "LOCALHOST": 200, "127.0.0.1": 200, "[::1]:9901": 200, "127.9.9.9:1": 200,
		"fence.example": 200, "FENCE.example:9901": 200, "evil.example": 403, "localhost.evil.example": 403, "10.0.0.1:9901": 403, "": 403,
		"127.0.0.1.evil.example": 403, "sub.fence.example": 403, "fence.example.evil": 403} {
		for path, here := range map[string]int{"/metrics": 200, "/v1/keys": 200, "/v1/keys/a:1": 404, "/nothing": 404} {
			req := httptest.NewRequest("GET", path, nil)
			req.Host = host
			if want == 403 {
				here = 403
			}
			if code, body := r.do(req); code != here {
				t.Errorf("Host %q: %s: %d %s, want %d", host, path, code, body, here)
			}
		}
		for _, probe := range []string{"/healthz", "/readyz"} {
			req := httptest.NewRequest("GET", probe, nil)
			req.Host = host
			if code, body := r.do(req); code != 200 {
				t.Errorf("Host %q: %s: %d %s", host, probe, code, body)
			}
		}
	}
	r.ready = &NotReady{"the store does not answer", errors.New("the store at 10.1.2.3 sleeps")}
	req := httptest.NewRequest("GET", "/readyz", nil)
	req.Host = "evil.example"
	if code, body := r.do(req); code != 503 || body != "not ready: the store does not answer\n" {
		t.Errorf("%d %q", code, body)
	}
}

// Without the token nobody learns whether a key, or a path, exists.
func TestToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	const secret = "0123456789abcdef0123"
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, withToken(path))
	r.enter("a:1", 7).Settle()
	bodies := map[bool][]string{} // by whether anything was shown
	for _, target := range []string{"/v1/keys/a:1", "/v1/keys/a:2", "/v1/keys", "/metrics", "/v1/check?key=a:1&token=1", "/v1/export", "/nothing"} {
		for _, auth := range [][]string{nil, {"Bearer"}, {"Bearer "}, {"Bearer x"}, {"Basic " + secret}, {"Bearer " + secret + "4"}, {"Bearer " + secret[1:]}, {"Bearer " + secret, "Bearer " + secret}} {
			req := r.request("GET", target, "")
			req.Header["Authorization"] = auth
			w := httptest.NewRecorder()
			r.handler.ServeHTTP(w, req)
			if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s with %q: %d %s", target, auth, w.Code, w.Body)
			}
			bodies[auth != nil] = append(bodies[auth != nil], w.Body.String())
		}
		req := r.request("GET", target, "")
		req.Header.Set("Authorization", "bearer "+secret)
		if code, body := r.do(req); code == 401 {
			t.Errorf("%s: %s", target, body)
		}
	}
	for shown, some := range bodies {
		if strings.Contains(some[0], "is not the one of this listener") != shown {
			t.Errorf("a token was shown: %v, and the answer is %s", shown, some[0])
		}
		for _, b := range some {
			if b != some[0] {
				t.Errorf("answers differ: %s and %s", b, some[0])
			}
		}
	}
	r.take()
	for _, c := range [][3]string{{"POST", "/v1/keys/a:1/raise", `{"token":"9","reason":"r"}`}, {"DELETE", "/v1/keys/a:1", `{"reason":"r"}`}, {"POST", "/v1/forget", `{"prefix":"a","reason":"r"}`}, {"POST", "/v1/import?reason=r", ""}, {"PUT", "/v1/keys/a:1", ""}} {
		r.refused(wire.AdminUnauthorized, c[0], c[1], c[2])
	}
	if l := r.take(); len(l) > 0 {
		t.Errorf("strangers fill the audit: %+v", l)
	}
	for _, probe := range []string{"/healthz", "/readyz"} {
		if code, body := r.get(probe); code != 200 {
			t.Errorf("%s: %d %s", probe, code, body)
		}
	}
	if h, _ := r.highest("a:1"); h.Major != 7 {
		t.Errorf("raised to %v", h)
	}
}

// What a page of another origin can make a browser send changes nothing.
func TestBrowser(t *testing.T) {
	r := newRig(t)
	r.enter("a:1", 7).Settle()
	for _, c := range []struct {
		name          wire.Name
		header, value string
	}{
		{wire.AdminMediaType, "Content-Type", "text/plain"}, {wire.AdminMediaType, "Content-Type", ""}, {wire.AdminMediaType, "Content-Type", "application/x-www-form-urlencoded"},
		{wire.AdminMediaType, "Content-Type", "multipart/form-data; boundary=x"}, {wire.AdminMediaType, "Content-Type", "text/plain; application/json"},
		{wire.AdminForbidden, "Origin", "http://evil.example"}, {wire.AdminForbidden, "Origin", "null"}, {wire.AdminForbidden, "Origin", "http://127.0.0.1:9901"},
	} {
		for _, target := range []string{"POST /v1/keys/a:1/raise", "POST /v1/keys/a:1/settle", "DELETE /v1/keys/a:1", "POST /v1/forget", "POST /v1/import"} {
			method, path, _ := strings.Cut(target, " ")
			req := r.request(method, path, `{"token":"9","reason":"r"}`)
			req.Header.Set(c.header, c.value)
			code, body := r.do(req)
			if !strings.Contains(body, string(c.name)) {
				t.Errorf("%s with %s %q: %d %s", target, c.header, c.value, code, body)
			}
		}
	}
	req := r.request("GET", "/v1/keys/a:1", "")
	req.Header.Set("Origin", "http://evil.example")
	if code, body := r.do(req); code != 403 || strings.Contains(body, "highest") {
		t.Errorf("a page may read: %d %s", code, body)
	}
	if h, _ := r.highest("a:1"); h.Major != 7 {
		t.Errorf("raised to %v", h)
	}
}
