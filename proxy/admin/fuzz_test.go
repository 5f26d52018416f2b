package admin

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// FuzzRequest sends any request. Nothing panics; what is refused is told by a
// problem and has changed nothing, and neither has a GET; a mark never goes down
// but by forgetting it; and every change has an audit line.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][3]string{
		{"GET", "/v1/keys?prefix=a&after=a%3A1&limit=2", ""}, {"GET", "/v1/keys/a:1", ""}, {"GET", "/v1/keys/%2Fa%2Fb?rule=a", ""}, {"GET", "/v1/check?key=a:1&token=6&holder=h", ""},
		{"POST", "/v1/keys/a:1/raise", `{"token":"9","reason":"r"}`}, {"POST", "/v1/keys/a:1/raise", `{"token":"3/9","reason":"r"}`}, {"POST", "/v1/keys/e:1/raise", `{"token":"1001","reason":"r"}`},
		{"POST", "/v1/keys/a:1/settle", `{"reason":"r"}`}, {"DELETE", "/v1/keys/a:1", `{"reason":"r"}`}, {"POST", "/v1/forget", `{"prefix":"a","raised_before":"1s","reason":"r","dry_run":true}`},
		{"POST", "/v1/import?reason=r", `{"fenceproxy":"export","version":1}` + "\n"}, {"GET", "/v1/keys/a%253A1", ""}, {"GET", "/v1/keys?limit=1001", ""}, {"GET", "/v1/keys/a:1?a&a", ""},
		{"POST", "/v1/import?reason=r", dumpHead + `{"key":"a:1","highest":"9.0","raised_at":"2026-05-04T03:02:01Z"}` + "\n" + `{"key":"b","highest":"4/1.2","holder":"h","raised_at":"2026-05-04T03:02:01Z"}` + "\n"},
		{"POST", "/v1/import?reason=r", dumpHead + `{"key":"a:2","highest":"9.0","raised_at":"2026-05-04T03:02:01Z"}` + "\n" + `{"key":"e:1","highest":"4/1.0","raised_at":"2026-05-04T03:02:01Z"}` + "\n"},
		{"POST", "/v1/keys//raise", `{}`}, {"POST", "/v1/keys/%2Fraise/raise", `{"token":"1","reason":"x"}`}, {"HEAD", "/v1/keys/a:1", ""}, {"GET", "/healthz", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") || strings.ContainsAny(target, " \x00") || !isMethod(method) || strings.HasPrefix(target, "/debug") || strings.HasPrefix(target, "/v1/export") {
			return // net/http refuses it
		}
		r := newRig(t)
		before := map[tokenstore.Key]uint64{"a:1": 5, "/a/b": 7, "e:1": 1}
		for key, n := range before {
			r.enter(key, n).Settle()
		}
		if strings.HasPrefix(target, "/v1/import") {
			body = sealed(body)
		}
		req := httptest.NewRequest(method, "/", strings.NewReader(body))
		req.URL, req.RequestURI, req.Host = u, target, "127.0.0.1:9901"
		req.Header.Set("Content-Type", "application/json")
		if strings.HasPrefix(target, "/v1/import") {
			req.Header.Set("Content-Type", "application/x-ndjson")
		}
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, req)
		var p wire.Refusal
		switch {
		case w.Code >= 500: // the store answers, and can do all
			t.Fatalf("%s %s %q: %d %s", method, target, body, w.Code, w.Body)
		case w.Code >= 400 && method != "HEAD" && (json.Unmarshal(w.Body.Bytes(), &p) != nil || p.Status != w.Code || p.Detail == ""):
			t.Fatalf("%s %s %q: %d %s", method, target, body, w.Code, w.Body)
		}
		changed := r.store.Store.Keys() != int64(len(before))
		for key, n := range before {
			highest, ok := r.highest(key)
			changed = changed || !ok || highest.Major != n || highest.Epoch != 0
			if ok && highest.Less(tokenstore.Token{Major: n}) || !ok && method != "DELETE" && !strings.HasPrefix(u.Path, wire.ForgetPath) {
				t.Fatalf("%s %s %q: %s has %v, and had %d", method, target, body, key, highest, n)
			}
		}
		done := slices.ContainsFunc(r.take(), func(l AuditLine) bool { return l.Result == resultDone })
		if changed && (w.Code >= 400 || method == "GET" || method == "HEAD" || !done) {
			t.Fatalf("%s %s %q: %d %s, and something has changed; an audit line says so: %v", method, target, body, w.Code, w.Body, done)
		}
	})
}

const dumpHead = `{"fenceproxy":"export","version":1,"clean":false,"exported_at":"2026-05-04T03:02:01Z"}` + "\n"

// sealed is a dump with the last line that belongs to it, without which it would be
// refused whatever it says.
func sealed(body string) string {
	if !strings.HasSuffix(body, "\n") {
		return body
	}
	return fmt.Sprintf("%s{\"keys\":%d,\"sha256\":\"%x\"}\n", body, strings.Count(body, `{"key":`), sha256.Sum256([]byte(body)))
}

func isMethod(s string) bool {
	switch s {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS":
		return true
	}
	return false
}
