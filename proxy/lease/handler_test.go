package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
)

// newAPI is the API over an issuer of its own, in real time.
func newAPI(t *testing.T, o HandlerOptions) (http.Handler, *rig) {
	t.Helper()
	r := &rig{T: t, store: &table{Store: memory.New()}}
	r.owners = []Owner{{Rule: "accounts", Fence: r.fence}}
	r.issuer = r.open(Options{})
	t.Cleanup(r.issuer.Close)
	o.Issuer, o.Loopback = r.issuer, true
	return NewHandler(o), r
}

// call sends one request as curl would.
func call(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Host = "127.0.0.1:8090"
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Del(name)
		if name == "Host" {
			req.Host = value
		} else if value != "" {
			req.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func lease(t *testing.T, w *httptest.ResponseRecorder, status int) (l wire.Lease) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || w.Code != status || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %s, want %d", w.Code, w.Body, status)
	}
	return l
}

// refused wants a problem.
func refused(t *testing.T, w *httptest.ResponseRecorder, status int, name wire.Name, detail string) {
	t.Helper()
	var p wire.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != status || p.Status != status || p.Name() != name || !strings.Contains(p.Detail, detail) ||
		w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %s, want %d %s with %q", w.Code, w.Body, status, name, detail)
	}
}

const at = "/v1/leases/account:42"

func TestTheLifeOfALease(t *testing.T) {
	h, _ := newAPI(t, HandlerOptions{})
	refused(t, call(h, "GET", at, ""), 404, wire.LeaseFree, "POST")
	began := time.Now()
	a := lease(t, call(h, "POST", at, `{"holder": "A", "ttl": "1m", "wait": "0s"}`), 201)
	if a.Key != "account:42" || a.Holder != "A" || a.ID == "" || a.Token != "1" || a.ExpiresIn > wire.Duration(time.Minute) || a.ExpiresIn < wire.Duration(50*time.Second) {
		t.Errorf("%+v", a)
	}
	w := call(h, "POST", at, `{"holder": "B"}`)
	refused(t, w, 409, wire.LeaseHeld, `held by "A" with token 1`)
	least := time.Minute - time.Since(began) // rounded up, so it is 60 where nothing stood still
	if after, err := strconv.Atoi(w.Header().Get("Retry-After")); err != nil || after > 60 || time.Duration(after)*time.Second < least {
		t.Errorf("Retry-After is %q", w.Header().Get("Retry-After"))
	}
	st := lease(t, call(h, "GET", at, ""), 200)
	if st.ID != "" || st.Holder != "A" || st.TTL != wire.Duration(time.Minute) || st.GrantedAt == nil || strings.Contains(call(h, "GET", at, "").Body.String(), a.ID) {
		t.Errorf("%+v", st)
	}
	if again := lease(t, call(h, "PUT", at, `{"id": "`+a.ID+`", "ttl": "30s"}`), 200); again.Token != "1" || again.ExpiresIn > wire.Duration(30*time.Second) {
		t.Errorf("%+v", again)
	}
	refused(t, call(h, "PUT", at, `{"id": "another"}`), 409, wire.LeaseLost, "stop writing")
	refused(t, call(h, "DELETE", at, `{"id": "another"}`), 409, wire.LeaseLost, "")
	if w := call(h, "DELETE", at, `{"id": "`+a.ID+`"}`); w.Code != 204 || w.Body.Len() != 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	refused(t, call(h, "DELETE", at, `{"id": "`+a.ID+`"}`), 409, wire.LeaseLost, "")
	if b := lease(t, call(h, "POST", at, `{}`), 201); b.Token != "2" || b.Holder != "192.0.2.1" || b.ID == a.ID { // the client's address
		t.Errorf("%+v", b)
	}
}

// A key is escaped once in the path, whatever escapes it has of its own.
func TestKeysInThePath(t *testing.T) {
	h, _ := newAPI(t, HandlerOptions{})
	for path, want := range map[string]string{"/v1/leases/a%252Fb": "a%2Fb", "/v1/leases//accounts/42": "/accounts/42", "/v1/leases/%2Faccounts%2F43": "/accounts/43",
		"/v1/leases/it%27s": "it's", "/v1/leases/a%3Fb": "a?b", "/v1/leases/caf%C3%A9": "café"} {
		if l := lease(t, call(h, "POST", path, `{"fence": false}`), 201); l.Key != want {
			t.Errorf("%s: %q", path, l.Key)
		}
	}
	for _, path := range []string{"/v1/leases/", "/v1/leases/%00", "/v1/leases/%FF", "/v1/leases/a%0Ab", "/v1/leases/" + strings.Repeat("x", 1025)} {
		refused(t, call(h, "POST", path, `{"fence": false}`), 400, wire.LeaseMalformed, "the key must be")
		refused(t, call(h, "GET", path, ""), 400, wire.LeaseMalformed, "the key must be")
	}
	refused(t, call(h, "POST", "/v1/leases/unknown", `{}`), 400, wire.KeyNotCovered, "no rule can make this key")
	refused(t, call(h, "GET", "/v1/keys/a", ""), 404, wire.LeaseMalformed, "leases are at")
}

func TestBodiesAreReadStrictly(t *testing.T) {
	h, r := newAPI(t, HandlerOptions{})
	for body, detail := range map[string]string{
		``: "must be one JSON object", `[]`: "must be one JSON object", `"x"`: "must be one JSON object", `{`: "not JSON", `{"holder":}`: "not JSON",
		`{} {}`: "behind the JSON object", `{}x`: "behind the JSON object",
		`{"Holder": "A"}`: `"Holder" is no member of this request; these are: holder, ttl, wait, fence, rule`, `{"id": "x"}`: "no member",
		`{"ttl": "1s", "ttl": "2s"}`: "stands twice", `{"ttl": "1s", "\u0074tl": "2s"}`: "stands twice",
		`{"ttl": 10}`: `"ttl": "10" is not a duration like "10s"`, `{"ttl": "10"}`: "is not a duration", `{"ttl": "-1s"}`: "is not a duration", `{"wait": null}`: "must have a value",
		`{"fence": "no"}`: "must be true or false", `{"fence": null}`: "must have a value", `{"holder": {"a": 1}}`: "must be a string", `{"holder": 1}`: "must be a string",
		`{"ttl": "99ms"}`: "from 100ms to 1h", `{"ttl": "2h"}`: "from 100ms to 1h", `{"wait": "25h"}`: "wait is",
		`{"holder": "` + strings.Repeat("x", 257) + `"}`: "at most 256 bytes", `{"holder": "a\nb"}`: "printable", "{\"holder\": \"\xff\"}": "not UTF-8",
		`{"holder": "` + strings.Repeat("x", 64<<10) + `"}`: "more than",
	} {
		refused(t, call(h, "POST", at, body), 400, wire.LeaseMalformed, detail)
	}
	for _, method := range []string{"PUT", "DELETE"} {
		refused(t, call(h, method, at, `{}`), 400, wire.LeaseMalformed, `"id" is missing`)
		refused(t, call(h, method, at, `{"id": "x", "holder": "A"}`), 400, wire.LeaseMalformed, "no member")
	}
	refused(t, call(h, "PUT", at, `{"id": "x", "ttl": "2h"}`), 400, wire.LeaseMalformed, "ttl is")
	r.empty()
}

// A page that a browser shows must not reach the API.
func TestBrowsersAreKeptOut(t *testing.T) {
	h, r := newAPI(t, HandlerOptions{})
	refused(t, call(h, "POST", at, `{}`, "Host: evil.example"), 403, wire.LeaseMalformed, "Host")
	refused(t, call(h, "GET", at, ``, "Host: evil.example:8090"), 403, wire.LeaseMalformed, "Host")
	for _, method := range []string{"GET", "POST"} {
		refused(t, call(h, method, at, `{}`, "Origin: http://127.0.0.1:8090"), 403, wire.LeaseMalformed, "Origin")
	}
	for _, ct := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json5"} {
		refused(t, call(h, "POST", at, `{}`, "Content-Type: "+ct), 415, wire.LeaseMalformed, "application/json")
	}
	w := call(h, "PATCH", at, `{}`)
	refused(t, w, 405, wire.LeaseMalformed, "POST")
	if w.Header().Get("Allow") == "" {
		t.Error("Allow is missing")
	}
	r.empty()
	for _, host := range []string{"localhost", "localhost:1", "127.0.0.1", "[::1]:8090"} {
		refused(t, call(h, "GET", at, ``, "Host: "+host), 404, wire.LeaseFree, "")
	}
	lease(t, call(h, "POST", at, `{}`, "Content-Type: application/json; charset=utf-8"), 201)
}

func TestBearer(t *testing.T) {
	const secret = "0123456789abcdef"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := guard.ReadToken(file)
	if err != nil {
		t.Fatal(err)
	}
	h, r := newAPI(t, HandlerOptions{Token: token})
	var bodies []string // the first without a token
	for _, header := range []string{"Authorization: ", "Authorization: Bearer wrong", "Authorization: Basic " + secret, "Authorization: " + secret, "Authorization: Bearer ", "Authorization: Bearer " + secret + " "} {
		for _, method := range []string{"GET", "POST"} {
			w := call(h, method, at, `{}`, header)
			refused(t, w, 401, wire.Unauthorized, "Authorization: Bearer")
			if w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Error("WWW-Authenticate is missing")
			}
			bodies = append(bodies, w.Body.String())
		}
	}
	if bodies[0] != bodies[1] || bodies[0] == bodies[2] || strings.Contains(bodies[0], "the token that was sent") || !strings.Contains(bodies[2], "the token that was sent") {
		t.Errorf("a missing token: %s, and a wrong one: %s", bodies[0], bodies[2])
	}
	for _, body := range bodies[2:] {
		if body != bodies[2] {
			t.Errorf("a 401 tells something: %s", body)
		}
	}
	req := httptest.NewRequest("GET", at, nil)
	req.Host, req.Header["Authorization"] = "localhost", []string{"Bearer " + secret, "Bearer " + secret}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	refused(t, w, 401, wire.Unauthorized, "")
	r.empty()
	refused(t, call(h, "GET", at, "", "Authorization: bearer "+secret), 404, wire.LeaseFree, "")
}

// What Acquire may return, and what of it a client sees.
func TestEveryErrorIsAnswered(t *testing.T) {
	used := &tokenstore.TokensUsedUpError{Key: key, Epoch: 3}
	for _, tt := range []struct {
		err    error
		status int
		name   wire.Name
		after  string
	}{
		{&RequestError{"x"}, 400, wire.LeaseMalformed, ""},
		{&KeyError{"x"}, 400, wire.KeyNotCovered, ""},
		{&HeldError{Key: key}, 409, wire.LeaseHeld, "1"},
		{&HeldError{Key: key, Current: tokenstore.Lease{ID: "x"}, Left: 3100 * time.Millisecond}, 409, wire.LeaseHeld, "4"},
		{ErrLost, 409, wire.LeaseLost, ""},
		{ErrFree, 404, wire.LeaseFree, ""},
		{used, 409, wire.TokensUsedUp, ""},
		{&TokenError{"x"}, 409, wire.TokensUsedUp, ""},
		{&gate.DrainTimeoutError{Key: key, RetryAfter: 7 * time.Second}, 503, wire.DrainTimeout, "7"},
		{&gate.DrainTimeoutError{Key: key, Quarantined: true}, 503, wire.DrainTimeout, "1"},
		{ErrOverloaded, 503, wire.Overloaded, "1"},
		{ErrRaced, 503, wire.Overloaded, "1"},
		{gate.ErrOverloaded, 503, wire.Overloaded, "1"},
		{gate.ErrTooManyKeys, 503, wire.TooManyKeys, "1"},
		{ErrStopping, 503, wire.ShuttingDown, "1"},
		{gate.ErrStopping, 503, wire.ShuttingDown, "1"},
		{errGone, 503, wire.StoreUnavailable, "1"},
		{&tokenstore.DamagedError{Key: key}, 503, wire.StoreUnavailable, "1"},
		{ErrLeft, 503, wire.StoreUnavailable, "1"},
		{errors.New("nobody thought of this"), 503, wire.StoreUnavailable, "1"},
	} {
		w := httptest.NewRecorder()
		problem(key, fmt.Errorf("wrapped: %w", tt.err)).Write(w)
		refused(t, w, tt.status, tt.name, "")
		if got := w.Header().Get("Retry-After"); got != tt.after {
			t.Errorf("%v: Retry-After is %q, want %q", tt.err, got, tt.after)
		}
	}
}

// Over real connections: a client that waits longer than its body may take, one
// that leaves while it waits, and one whose body never comes.
func TestClientsThatWaitAndLeave(t *testing.T) {
	h, r := newAPI(t, HandlerOptions{BodyTimeout: 100 * time.Millisecond})
	srv := httptest.NewServer(h)
	defer srv.Close()
	post := func(ctx context.Context, body string) (int, wire.Lease) {
		req, _ := http.NewRequestWithContext(ctx, "POST", srv.URL+at, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		resp, err := srv.Client().Do(req)
		if err != nil {
			return 0, wire.Lease{}
		}
		defer resp.Body.Close()
		var l wire.Lease
		_ = json.NewDecoder(resp.Body).Decode(&l)
		return resp.StatusCode, l
	}
	_, first := post(t.Context(), `{"holder": "A", "ttl": "1h"}`)
	ctx, leave := context.WithCancel(t.Context())
	waiting := func(n int) {
		for end := time.Now().Add(10 * time.Second); r.issuer.Counts().Waiting != n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d wait, want %d", r.issuer.Counts().Waiting, n)
			}
		}
	}
	go post(ctx, `{"holder": "B", "wait": "1h"}`)
	waiting(1)
	done := make(chan wire.Lease, 1)
	go func() { _, l := post(t.Context(), `{"holder": "C", "wait": "1h"}`); done <- l }()
	waiting(2)
	leave()
	waiting(1)
	time.Sleep(200 * time.Millisecond) // twice the body's
	if err := r.issuer.Release(t.Context(), key, first.ID); err != nil {
		t.Fatal(err)
	}
	if next := <-done; next.Holder != "C" || next.Token <= first.Token {
		t.Errorf("%+v", next)
	}

	// It declares a body, and sends none.
	resp, err := srv.Client().Post(srv.URL+at, "application/json", stalled{t.Context()})
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Errorf("%s", resp.Status)
		}
	}
}

// stalled is a body that does not come.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) {
	select {
	case <-s.ctx.Done():
	case <-time.After(2 * time.Second):
	}
	return 0, errors.New("it never came")
}
