package lease

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
)

// FuzzRequest sends any path and body. Nothing panics and nobody waits; what is
// refused is a problem; a grant is of the very key that the path names, can be
// shown under it and released by its ID; and a GET changes nothing.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][3]string{
		{"POST", "account:42", `{"holder":"h","ttl":"30s"}`}, {"POST", "a%2Fb", `{"fence":false}`}, {"PUT", "account:42", `{"id":"x"}`}, {"DELETE", "account%3A42", `{"id":"x"}`},
		{"GET", "account:42", ""}, {"POST", "a/b", `{}`}, {"POST", "..", `{}`}, {"POST", "%2E%2E", `{}`}, {"POST", "a%00", `{}`}, {"POST", "k", `{"ttl":"-1s"}`}, {"POST", "k", `{"wait":"25h"}`},
		{"POST", "k?x=1", `{}`}, {"POST", "%C3%A9", `{"holder":"\u0000"}`}, {"POST", "", `{}`}, {"PATCH", "k", `{}`}, {"POST", "k", `{"rule":"nobody"}`}, {"POST", "a%252Fb", `{}`},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, method, path, body string) {
		u, err := url.ParseRequestURI(wire.LeasesPath + path)
		if err != nil || strings.ContainsAny(path, " \x00") || !isMethod(method) {
			return // net/http refuses it
		}
		store := &table{Store: memory.New()}
		r := &rig{T: t, store: store}
		still := func() time.Duration { return 0 } // or a short lease might run out between two requests
		i, err := New(t.Context(), Options{Store: store.seat(), Clock: still, DefaultTTL: time.Minute, MaxTTL: time.Hour, Audit: func(Event) {},
			Owners: func(tokenstore.Key) []Owner { return []Owner{{Rule: "all", Fence: r.fence}} }})
		if err != nil {
			t.Fatal(err)
		}
		defer i.Close()
		h := NewHandler(HandlerOptions{Issuer: i, Loopback: true})
		w := send(h, method, u, body)
		key, _ := url.PathUnescape(strings.TrimPrefix(u.EscapedPath(), wire.LeasesPath))
		var held wire.Lease
		switch {
		case w.Code == http.StatusCreated:
			if err := json.Unmarshal(w.Body.Bytes(), &held); err != nil || method != "POST" || held.Key != key || held.ID == "" || held.ExpiresIn <= 0 {
				t.Fatalf("%s %s: %s", method, u, w.Body)
			}
		case w.Code < 400:
			t.Fatalf("%s %s %s: %d %s, and nobody holds anything", method, u, body, w.Code, w.Body)
		case w.Code >= 500: // the store answers, and nobody else asks
			t.Fatalf("%s %s %s: %d %s", method, u, body, w.Code, w.Body)
		case method != "HEAD":
			var p wire.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || p.Detail == "" {
				t.Fatalf("%s %s: %d %s", method, u, w.Code, w.Body)
			}
		}
		if n := leasesOf(t, store); (n == 1) != (held.ID != "") || n > 1 {
			t.Fatalf("%s %s %s: %d %s, and there are %d leases", method, u, body, w.Code, w.Body, n)
		}
		if held.ID == "" {
			return
		}
		var shown wire.Lease
		if w := send(h, "GET", u, ""); json.Unmarshal(w.Body.Bytes(), &shown) != nil || shown.Key != key || shown.ID != "" || shown.Token != held.Token {
			t.Fatalf("%s is shown as %d %s", u, w.Code, w.Body)
		}
		id, _ := json.Marshal(wire.LeaseRequest{ID: held.ID})
		if w := send(h, "DELETE", u, string(id)); w.Code != http.StatusNoContent || leasesOf(t, store) != 0 {
			t.Fatalf("%s: %d %s", u, w.Code, w.Body)
		}
	})
}

func leasesOf(t *testing.T, s *table) (n int) {
	t.Helper()
	if err := s.Leases(t.Context(), func(tokenstore.Key, tokenstore.Lease) bool { n++; return true }); err != nil {
		t.Fatal(err)
	}
	return n
}

func isMethod(s string) bool {
	switch s {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS":
		return true
	}
	return false
}

// send is call for a target of any bytes.
func send(h http.Handler, method string, u *url.URL, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, "/", strings.NewReader(body))
	req.URL, req.RequestURI, req.Host = u, u.RequestURI(), "127.0.0.1:8090"
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}
