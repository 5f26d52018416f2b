package guard

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const secret = "0123456789abcdef"

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for text, ok := range map[string]bool{secret: true, secret + "\n": true, secret + "\r\n": true, "": false, "short": false, secret + " x": false,
		secret + "\n" + secret: false, secret + "é": false, " " + secret: false, strings.Repeat("x", 5000): false} {
		write(t, path, text)
		if _, err := ReadToken(path); (err == nil) != ok {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if _, err := ReadToken(filepath.Dir(path)); err == nil {
		t.Error("a directory is a token")
	}
	if _, err := ReadToken(path + ".none"); err == nil {
		t.Error("no file is a token")
	}
}

// A new token counts within a second, and one that cannot be used leaves the
// old one.
func TestTokenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		write(t, path, secret)
		token, err := ReadToken(path)
		if err != nil {
			t.Fatal(err)
		}
		knows := func(given string) bool {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Authorization", "Bearer "+given)
			time.Sleep(lookAgain)
			return token.In(r)
		}
		next := secret + "next"
		if !knows(secret) || knows(next) {
			t.Error("the first token")
		}
		write(t, path, "short")
		if !knows(secret) || knows("short") {
			t.Error("a token that cannot be used was taken")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if !knows(secret) || knows("") {
			t.Error("a file that is gone changes the token")
		}
		write(t, path, next)
		if knows(secret) || !knows(next) {
			t.Error("the next token was not taken")
		}
	})
}

// raw is a type that says by itself what it wants.
type raw string

func (r *raw) UnmarshalText(text []byte) error {
	if string(text) != "ok" {
		return errors.New("only ok is raw")
	}
	*r = raw(text)
	return nil
}

func TestReadBody(t *testing.T) {
	type body struct {
		A string `json:"a"`
		B *bool  `json:"b,omitempty"`
		C raw    `json:"c"`
		D int    `json:"d"`
	}
	for text, want := range map[string]string{
		`{"a":"x","b":true,"c":"ok","d":1}`: "", " {\n}\n": "",
		``: "one JSON object", `[]`: "one JSON object", `null`: "one JSON object", `"x"`: "one JSON object",
		`{"a":"x"`: "not JSON", `{"a":"x",}`: "not JSON", `{"a":}`: "not JSON", `{1:2}`: "not JSON",
		`{"a":"x"}{}`: "behind the JSON object", `{"a":"x"} x`: "behind the JSON object",
		`{"a":"x","a":"y"}`: `"a" stands twice`, `{"a":"x","\u0061":"y"}`: `"a" stands twice`,
		`{"A":"x"}`: `"A" is no member of this request; these are: a, b, c, d`, `{"a":"x","A":"y"}`: "no member", `{"e":1}`: "no member", `{"":1}`: "no member",
		`{"a":{}}`: `"a": must be a string`, `{"a":1}`: "must be a string", `{"a":null}`: `"a": must have a value`, `{"b":"yes"}`: "must be true or false", `{"b":null}`: "must have a value",
		`{"c":"no"}`: `"c": only ok is raw`, `{"c":1}`: "only ok is raw", `{"c":ok}`: "not JSON", `{"d":1.5}`: "another form", "{\"a\":\"\xff\"}": "not UTF-8",
		`{"a":"` + strings.Repeat("x", maxBody) + `"}`: "more than 65536 bytes",
	} {
		var b body
		err := ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(text)), &b)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
	b := body{}
	if err := ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(`{"a":"x","c":"ok","b":false}`)), &b); err != nil || b.A != "x" || b.C != "ok" || b.B == nil || *b.B {
		t.Errorf("%+v, %v", b, err)
	}
	err := ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(`{"a":"x"}`)), &b, "b", "c")
	if err == nil || err.Error() != `"a" is no member of this request; these are: b, c` {
		t.Errorf("a member that this request may not have: %v", err)
	}
}

// A body that never comes does not keep the answer, whether it is wanted or not,
// and one who waits without a body is not cut off.
func TestBodiesThatStall(t *testing.T) {
	o := Options{BodyTimeout: 50 * time.Millisecond, Refuse: func(w http.ResponseWriter, status int, _ string) { w.WriteHeader(status) }}
	gone := make(chan error, 1)
	srv := httptest.NewServer(New(o).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/read":
			if err := ReadBody(w, r, &struct{}{}); err != nil {
				w.WriteHeader(http.StatusBadRequest)
			}
		case "/wait":
			select {
			case <-r.Context().Done():
				gone <- r.Context().Err()
			case <-time.After(200 * time.Millisecond): // four times the body's
			}
		}
	})))
	defer srv.Close()
	o.BodyTimeout = time.Hour // a refusal does not wait for it
	refusing := httptest.NewServer(New(o).Wrap(http.NotFoundHandler()))
	defer refusing.Close()
	ask := func(srv *httptest.Server, head string) string {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, head); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		return line
	}
	for path, want := range map[string]string{"/read": "400", "/leave": "200"} {
		if line := ask(srv, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"); !strings.Contains(line, want) {
			t.Errorf("%s: %q", path, line)
		}
	}
	if line := ask(refusing, "POST /read HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000\r\n\r\n{"); !strings.Contains(line, "403") {
		t.Errorf("refused: %q", line)
	}
	if line := ask(srv, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"); !strings.Contains(line, "200") {
		t.Errorf("without a body: %q", line)
	}
	select {
	case err := <-gone:
		t.Error("the watch for callers that leave ended by itself:", err)
	default:
	}
}

// Who is kept out is told to the log, without what it has shown.
func TestKeptOutIsLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, secret)
	token, err := ReadToken(path)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	h := New(Options{Token: token, Log: zap.New(core), Refuse: func(w http.ResponseWriter, status int, _ string) { w.WriteHeader(status) }}).Wrap(http.NotFoundHandler())
	for _, header := range []http.Header{{"Authorization": {"Bearer wrong" + secret}}, {"Authorization": {"Bearer " + secret}, "Origin": {"http://page.example"}},
		{"Authorization": {"Bearer " + secret}, "Content-Type": {"text/plain"}}, {"Authorization": {"Bearer " + secret}, "Content-Type": {"application/json"}}} {
		r := httptest.NewRequest("POST", "http://localhost/v1/keys/a%2Fb/raise?token=9", nil)
		r.Header = header
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	lines := logs.All()
	if len(lines) != 3 { // the last one was let in
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	for i, status := range []int64{401, 403, 415} {
		f := lines[i].ContextMap()
		if f["status"] != status || f["method"] != "POST" || f["path"] != "/v1/keys/a%2Fb/raise" || f["peer"] != "192.0.2.1:1234" || f["why"] == "" {
			t.Errorf("%v", f)
		}
		if strings.Contains(fmt.Sprint(f), secret) {
			t.Errorf("the log has what was shown: %v", f)
		}
	}
}
