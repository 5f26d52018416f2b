package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"
)

// What is different on HTTP/2 arrives at an HTTP/1 upstream as it was meant.
func TestHTTP2Arrives(t *testing.T) {
	r := newRig(t, nil)
	c := r.dialHTTP2()
	id := c.open(false, "x-fencing-token", "7", "cookie", "a=1", "cookie", "b=2", "te", "trailers", "x-a", "1", "x-a", "2", "expect", "100-continue")
	c.data(id, "abc", true)
	a := r.next()
	h := a.r.Header
	if a.r.Proto != "HTTP/1.1" || a.r.Host != "a" || a.body != "abc" || a.r.ContentLength != 3 || len(a.r.TransferEncoding) > 0 {
		t.Errorf("%s to %s: %q, length %d, %v", a.r.Proto, a.r.Host, a.body, a.r.ContentLength, a.r.TransferEncoding)
	}
	if cookies := h["Cookie"]; len(cookies) != 1 || cookies[0] != "a=1; b=2" {
		t.Errorf("Cookie: %q", cookies)
	}
	if !slices.Equal(h["X-A"], []string{"1", "2"}) || h.Get("X-Forwarded-Proto") != "http" || h.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("%v", h)
	}
	a.answer()
	if s := c.over(id); s.status != "200" || !slices.Equal(s.informed, []string{"100"}) {
		t.Errorf("%+v", s)
	}
}

// A body without length that is larger than what is read ahead goes on in
// chunks, and one of no byte has its length.
func TestHTTP2BodyWithoutLength(t *testing.T) {
	r := newRig(t, nil)
	for size, want := range map[int]int64{0: 0, 3: 3, 5000: -1} {
		c := r.dialHTTP2()
		id := c.put("7", strings.Repeat("x", size))
		c.data(id, "", true)
		a := r.next()
		if len(a.body) != size || a.r.ContentLength != want {
			t.Errorf("%d bytes arrive, length %d; want %d, %d", len(a.body), a.r.ContentLength, size, want)
		}
		a.answer()
		c.over(id)
	}
}

// Answers in every form come across.
func TestHTTP2Answers(t *testing.T) {
	for _, tt := range []struct {
		name, method, answer string
		status               int
		body                 string
		header, trailer      string // one that must be there
		broken               bool
	}{
		{"length", "PUT", "HTTP/1.1 200 OK\nContent-Length: 3\nX-A: 1\n\nabc", 200, "abc", "X-A", "", false},
		{"chunked, with a trailer", "PUT", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: X-Sum\n\n3\nabc\n0\nX-Sum: 5\n\n", 200, "abc", "", "X-Sum", false},
		{"a trailer that was not announced", "PUT", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n0\nX-Sum: 5\n\n", 200, "abc", "", "X-Sum", false},
		{"until close", "PUT", "HTTP/1.0 200 OK\n\nabc", 200, "abc", "", "", false},
		{"no content", "DELETE", "HTTP/1.1 204 No Content\n\n", 204, "", "", "", false},
		{"not modified", "GET", "HTTP/1.1 304 Not Modified\nEtag: x\n\n", 304, "", "Etag", "", false},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\nContent-Length: 3\n\n", 200, "", "Content-Length", "", false},
		{"what HTTP/2 has no room for", "PUT", "HTTP/1.1 200 OK\nConnection: close, X-Hop\nX-Hop: 1\nKeep-Alive: 1\nProxy-Connection: close\nUpgrade: h2,h2c\nContent-Length: 3\n\nabc", 200, "abc", "", "", false},
		{"cut short of its length", "PUT", "HTTP/1.1 200 OK\nContent-Length: 9\n\nabc", 200, "abc", "", "", true},
		{"cut within a chunk", "PUT", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n9\nabc", 200, "abc", "", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.raw(func(c net.Conn, _ *bufio.Reader) {
				_, _ = io.WriteString(c, strings.ReplaceAll(tt.answer, "\n", "\r\n"))
			}, nil)
			res, err := r.clientHTTP2().Do(r.request(tt.method, "/accounts/42", "7", nil))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if res.StatusCode != tt.status || string(body) != tt.body || (err != nil) != tt.broken || res.ProtoMajor != 2 {
				t.Errorf("%s %s %q, %v", res.Proto, res.Status, body, err)
			}
			if tt.header != "" && res.Header.Get(tt.header) == "" || tt.trailer != "" && res.Trailer.Get(tt.trailer) == "" {
				t.Errorf("%v, trailers %v", res.Header, res.Trailer)
			}
			for _, name := range []string{"Connection", "X-Hop", "Keep-Alive", "Proxy-Connection", "Upgrade", "Transfer-Encoding"} {
				if v := res.Header.Get(name); v != "" {
					t.Errorf("%s: %s", name, v)
				}
			}
		})
	}
}

// 1xx answers come across, also while clients reset their streams: net/http
// must not read a header that is being changed.
func TestHTTP2Informational(t *testing.T) {
	r := newRig(t, nil)
	r.api.serve = func(w http.ResponseWriter, _ *http.Request) {
		for i := range 20 {
			w.Header().Set("Link", fmt.Sprint(i))
			w.Header().Set("X-"+fmt.Sprint(i), "1")
			w.WriteHeader(http.StatusEarlyHints)
		}
	}
	var links int
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		if code == http.StatusEarlyHints && h.Get("Link") != "" {
			links++
		}
		return nil
	}})
	client := r.clientHTTP2()
	res, err := client.Do(r.request("GET", "/x", "", nil).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if links != 20 {
		t.Errorf("%d of 20", links)
	}
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
		if res, err := client.Do(r.request("GET", "/x", "", nil).WithContext(ctx)); err == nil {
			_ = res.Body.Close()
		}
		cancel()
	}
}
