package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// sentHead returns the lines of the head that r is sent with, sorted behind the
// request line.
func sentHead(t *testing.T, u *Upstream, r *Request) []string {
	t.Helper()
	b, err := u.appendHead(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutSuffix(string(b), "\r\n\r\n")
	if !ok {
		t.Fatalf("head %q does not end with a blank line", b)
	}
	lines := strings.Split(text, "\r\n")
	slices.Sort(lines[1:])
	return lines
}

func TestRequestHead(t *testing.T) {
	const forwarded = "X-Forwarded-For: 192.0.2.1|X-Forwarded-Host: api.example|X-Forwarded-Proto: http"
	base := func(h http.Header) *Request {
		return &Request{Method: "GET", Target: "/a%2fb?q=;&x=%zz", Host: "api.example", Header: h, RemoteAddr: "192.0.2.1:5000", Scheme: "http"}
	}
	rows := []struct {
		name string
		req  func(*Request)
		h    http.Header
		want string
	}{
		{"bytes of the target as they are", nil, nil, ""},
		{"several values stay several lines", nil, http.Header{"X-A": {"1", "2"}}, "X-A: 1|X-A: 2"},
		{"spelling stays", nil, http.Header{"x_odd.Name": {"1"}}, "x_odd.Name: 1"},
		{"hop-by-hop is dropped", nil, http.Header{"Connection": {"x-a, keep-alive", "X-B"}, "X-A": {"1"}, "X-B": {"1"}, "X-C": {"1"}, "Keep-Alive": {"1"},
			"Proxy-Authorization": {"1"}, "Proxy-Anything": {"1"}, "Upgrade": {"h2c"}, "Http2-Settings": {"1"}, "Te": {"gzip"}, "Transfer-Encoding": {"x"}, "Trailer": {"X"}}, "X-C: 1"},
		{"nor is what a server may take for it", nil, http.Header{"Transfer_Encoding": {"chunked"}, "Content!Length": {"1"}, "Proxy.Authorization": {"1"}, "content_length": {"2"}, "Content_Lengthy": {"1"}}, "Content_Lengthy: 1"},
		{"Expect is for the server in front", nil, http.Header{"Expect": {"100-continue"}}, ""},
		{"a client's own Forwarded is dropped", nil, http.Header{"Forwarded": {"for=1"}, "X-Forwarded-For": {"1"}, "x-forwarded-host": {"h"}, "X-Forwarded-Proto": {"https"}}, ""},
		{"no body, POST", func(r *Request) { r.Method = "POST" }, nil, "Content-Length: 0"},
		{"no body, DELETE", func(r *Request) { r.Method = "DELETE" }, nil, ""},
		{"no body, DELETE that said so", func(r *Request) { r.Method = "DELETE" }, http.Header{"Content-Length": {"0"}}, "Content-Length: 0"},
		{"length of the body, not of the header", func(r *Request) { r.Body, r.Length = strings.NewReader("abc"), 3 }, http.Header{"Content-Length": {"77"}}, "Content-Length: 3"},
		{"unknown length", func(r *Request) { r.Body, r.Length = strings.NewReader("abc"), -1 }, http.Header{"Content-Length": {"77"}}, "Transfer-Encoding: chunked"},
		{"trailers are announced", func(r *Request) {
			r.Body, r.Length = strings.NewReader("abc"), -1
			r.Trailer = func() http.Header { return http.Header{"X-Sum": nil, "Content-Length": nil} }
		}, nil, "Trailer: X-Sum|Transfer-Encoding: chunked"},
	}
	u := newUpstream(t, "http://127.0.0.1:9000/base%20path/")
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := base(row.h)
			if row.req != nil {
				row.req(r)
			}
			want := strings.Split("Host: api.example|Connection: close|"+forwarded, "|")
			if row.want != "" {
				want = append(want, strings.Split(row.want, "|")...)
			}
			slices.Sort(want)
			want = append([]string{r.Method + " /base%20path/a%2fb?q=;&x=%zz HTTP/1.1"}, want...)
			if got := sentHead(t, u, r); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
	r := base(http.Header{"Te": {"gzip, trailers"}})
	if got := sentHead(t, u, r); !slices.Contains(got, "Te: trailers") || !slices.Contains(got, "Connection: close, TE") {
		t.Errorf("TE: trailers is not passed on: %q", got)
	}
	u.preserveHost = false
	if got := sentHead(t, u, r); !slices.Contains(got, "Host: 127.0.0.1:9000") || !slices.Contains(got, "X-Forwarded-Host: api.example") {
		t.Errorf("without preserve_host: %q", got)
	}
}

// Whatever could end a line or be read in two ways is never sent.
func TestRefusedRequests(t *testing.T) {
	for name, req := range map[string]func(*Request){
		"method with a space":         func(r *Request) { r.Method = "PUT /x" },
		"no method":                   func(r *Request) { r.Method = "" },
		"line end in the target":      func(r *Request) { r.Target = "/x HTTP/1.1\r\nX: y" },
		"space in the target":         func(r *Request) { r.Target = "/x y" },
		"control byte in the target":  func(r *Request) { r.Target = "/x\x00" },
		"DEL in the target":           func(r *Request) { r.Target = "/x\x7f" },
		"target without slash":        func(r *Request) { r.Target = "http://other/" },
		"star":                        func(r *Request) { r.Target = "*" },
		"line end in the host":        func(r *Request) { r.Host = "a\r\nX: y" },
		"space in the host":           func(r *Request) { r.Host = "a b" },
		"line end in a header value":  func(r *Request) { r.Header = http.Header{"X": {"a\r\nY: b"}} },
		"line feed in a header value": func(r *Request) { r.Header = http.Header{"X": {"a\nb"}} },
		"NUL in a header value":       func(r *Request) { r.Header = http.Header{"X": {"a\x00"}} },
		"line end in a header name":   func(r *Request) { r.Header = http.Header{"X\r\nY": {"a"}} },
		"space in a header name":      func(r *Request) { r.Header = http.Header{"Content-Length ": {"3"}} },
		"empty header name":           func(r *Request) { r.Header = http.Header{"": {"3"}} },
		"line end in the address":     func(r *Request) { r.RemoteAddr = "a\r\nX: y:1" },
		"line end in the scheme":      func(r *Request) { r.Scheme = "http\r\nX: y" },
		"length of another body":      func(r *Request) { r.Length = 4 },
		"length without a body":       func(r *Request) { r.Body = nil },
		"negative length":             func(r *Request) { r.Length = -2 },
		"followed without end":        func(r *Request) { r.Timeout = 0 },
		"negative timeout":            func(r *Request) { r.Follow, r.Timeout = false, -1 },
		"no way to interrupt":         func(r *Request) { r.Body = strings.NewReader(hello) },
		"trailers with a length":      func(r *Request) { r.Trailer = func() http.Header { return nil } },
		"line end in a trailer name": func(r *Request) {
			r.Body, r.Length, r.Interrupt = strings.NewReader(hello), -1, func() {}
			r.Trailer = func() http.Header { return http.Header{"X\r\nY": nil} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, "http://127.0.0.1:1")
			r := put()
			req(r)
			// Port 1 is not dialed: that would be the reason refused.
			if res := exchangeOnce(t, context.Background(), u, r); res.outcome != notSent(ReasonBadRequest) {
				t.Errorf("outcome %v (%v), want not-sent (bad-request)", res.outcome, res.err)
			}
		})
	}
}

// TestRequestBodies reads what was sent with the standard library's parser.
func TestRequestBodies(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000)
	trailers := func() http.Header { return http.Header{"X-Sum": {"1", "2"}, "Host": {"evil"}} }
	for name, row := range map[string]struct {
		body    io.Reader
		length  int64
		trailer func() http.Header
		want    string
	}{
		"none":               {nil, 0, nil, ""},
		"empty":              {bytes.NewReader(nil), 0, nil, ""},
		"small":              {bytes.NewReader([]byte(hello)), 5, nil, hello},
		"in memory, large":   {bytes.NewReader([]byte(long)), int64(len(long)), nil, long},
		"in memory, chunked": {bytes.NewReader([]byte(hello)), -1, nil, hello},
		"streamed":           {strings.NewReader(long), int64(len(long)), nil, long},
		"streamed, chunked":  {strings.NewReader(long), -1, nil, long},
		"longer than said":   {strings.NewReader(long), 7, nil, long[:7]},
		"chunked, empty":     {strings.NewReader(""), -1, nil, ""},
		"chunked, trailers":  {strings.NewReader(hello), -1, trailers, hello},
		"odd reads":          {io.MultiReader(strings.NewReader("a"), nothing{}, strings.NewReader("b")), -1, nil, "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			u, _, done := listen(t, func(w *wire) {
				req, err := http.ReadRequest(w.br)
				if err != nil {
					t.Errorf("ReadRequest: %v", err)
					return
				}
				body, err := io.ReadAll(req.Body)
				if string(body) != row.want || err != nil {
					t.Errorf("body of %d bytes (%v), want %d", len(body), err, len(row.want))
				}
				if row.trailer != nil && (len(req.Trailer) != 1 || !slices.Equal(req.Trailer["X-Sum"], []string{"1", "2"})) {
					t.Errorf("trailers %v, want X-Sum: 1, 2", req.Trailer)
				}
				if n := w.br.Buffered(); n > 0 {
					t.Errorf("%d bytes too many", n)
				}
				w.say(ok)
			})
			r := put()
			r.Body, r.Length, r.Trailer, r.Interrupt = row.body, row.length, row.trailer, func() {}
			if res := exchangeOnce(t, context.Background(), u, r); res.outcome != settled {
				t.Errorf("outcome %v (%v)", res.outcome, res.err)
			}
			done()
		})
	}
}

// nothing is a reader that gives no byte once, and then ends.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

func TestOptions(t *testing.T) {
	for raw, want := range map[string]string{
		"ftp://127.0.0.1":        "scheme",
		"https://":               "host",
		"unix:run/api.sock":      "socket",
		"http://":                "host",
		"http://u:p@127.0.0.1":   "user name",
		"http://127.0.0.1/?a=b":  "query",
		"http://127.0.0.1/#frag": "fragment",
	} {
		at, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{URL: at}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that names the %s", raw, err, want)
		}
	}
	at := &url.URL{Scheme: "http", Host: "[::1]:90", Path: "/"}
	if _, err := New(Options{URL: at, TLS: &TLS{}}); err == nil {
		t.Error("TLS for an http URL passed")
	}
	if _, err := New(Options{URL: at, UnsettledStatuses: []int{100}}); err == nil {
		t.Error("an unsettled status of 100 passed")
	}
	if _, err := New(Options{URL: at, ConnectTimeout: -time.Second}); err == nil {
		t.Error("a negative timeout passed")
	}
	u, err := New(Options{URL: at})
	if err != nil || u.addr != "[::1]:90" || u.prefix != "" {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no URL passed")
	}
}
