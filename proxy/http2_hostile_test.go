package proxy

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// What only frames can say: the status or the code of the reset, and what
// arrives. A stream that is refused leaves its connection to the others.
func TestHTTP2Hostile(t *testing.T) {
	r := newRig(t, func(o *Options, _ []Rule) { o.ForwardUnmatched = true })
	token := []string{"x-fencing-token", "7"}
	with := func(fields ...string) []string { return append(fields, token...) }
	for _, tt := range []struct {
		name    string
		fields  []string
		want    string // the status, or the code of the reset
		arrives string // METHOD TARGET, or "" for nothing
	}{
		{"as it should be", with(), "200", "PUT /accounts/42"},
		{"lower-case method", with(":method", "put"), "200", "put /accounts/42"},
		{"two tokens", with("x-fencing-token", "8"), "400", ""},
		{"the same token twice", with("x-fencing-token", "7"), "400", ""},
		{"two tokens in one", []string{"x-fencing-token", "7, 8"}, "400", ""},
		{"a space in front", []string{"x-fencing-token", " 7"}, "400", ""},
		{"a tab behind", []string{"x-fencing-token", "7\t"}, "400", ""},
		{"underscores", with("x_fencing_token", "8"), "400", ""},
		{"no token", nil, "428", ""},
		{"capitals in a name", with("X-Other", "1"), "PROTOCOL_ERROR", ""},
		{"a token in capitals", []string{"X-Fencing-Token", "7"}, "PROTOCOL_ERROR", ""},
		{"a line end in a value", with("x-other", "1\r\nX-Fencing-Token: 9"), "PROTOCOL_ERROR", ""},
		{"a line end in a name", with("x-other\r\nx", "1"), "PROTOCOL_ERROR", ""},
		{"a colon in a name", with("x-fencing-token:", "9"), "PROTOCOL_ERROR", ""},
		{"an unknown pseudo-header", with(":token", "9"), "PROTOCOL_ERROR", ""},
		{"a pseudo-header twice", with("x-a", "b", ":PATH", "/x"), "PROTOCOL_ERROR", ""},
		{"connection", with("connection", "x-fencing-token"), "400", ""},
		{"keep-alive", with("keep-alive", "1"), "400", ""},
		{"transfer-encoding", with("transfer-encoding", "chunked"), "400", ""},
		{"upgrade", with("upgrade", "h2c"), "400", ""},
		{"te", with("te", "gzip"), "400", ""},
		{"a method with a space", with(":method", "PUT /x"), "400", ""},
		{"a request line as method", with(":method", "GET /accounts/42 HTTP/1.1"), "400", ""},
		{"no method", with(":method", ""), "PROTOCOL_ERROR", ""},
		{"no scheme", with(":scheme", ""), "PROTOCOL_ERROR", ""},
		{"another scheme", with(":scheme", "ftp"), "PROTOCOL_ERROR", ""},
		{"no path", with(":path", ""), "PROTOCOL_ERROR", ""},
		{"a path without a slash", with(":path", "accounts/42"), "PROTOCOL_ERROR", ""},
		{"a space in the path", with(":path", "/accounts/42 HTTP/1.1"), "400", ""},
		{"a space in the path of a read", []string{":method", "GET", ":path", "/x HTTP/1.1"}, "400", ""},
		{"a line end in the path", with(":path", "/accounts/42\r\nX: y"), "PROTOCOL_ERROR", ""},
		{"absolute-form", with(":path", "http://b/accounts/42"), "400", ""},
		{"absolute-form of a read", []string{":method", "GET", ":path", "http://b/x"}, "400", ""},
		{"asterisk", with(":path", "*"), "400", ""},
		{"OPTIONS asterisk", []string{":method", "OPTIONS", ":path", "*"}, "400", ""},
		{"dots", with(":path", "/x/../accounts/42"), "400", ""},
		{"fragment", with(":path", "/accounts/42#x"), "400", ""},
		{"CONNECT", []string{":method", "CONNECT", ":scheme", "", ":path", "", ":authority", "a:1"}, "405", ""},
		{"extended CONNECT", []string{":method", "CONNECT", ":protocol", "websocket"}, "PROTOCOL_ERROR", ""},
		{"PRI", []string{":method", "PRI"}, "400", ""},
		{"a host with a space", with(":authority", "a b"), "400", ""},
		{"a user", with(":authority", "u@a"), "PROTOCOL_ERROR", ""},
		{"another host", with("host", "b"), "400", ""},
		{"two hosts", with(":authority", "", "host", "a", "host", "b"), "400", ""},
		{"the same host", with("host", "a"), "200", "PUT /accounts/42"},
		{"host alone", with(":authority", "", "host", "a"), "200", "PUT /accounts/42"},
		{"a length without a body", with("content-length", "3"), "400", ""},
		{"a length that is none", with("content-length", "x"), "400", ""},
		{"two lengths", with("content-length", "0", "content-length", "3"), "400", ""},
		{"no length at all", with("content-length", "0"), "200", "PUT /accounts/42"},
		{"override of a read", []string{":method", "GET", "x-http-method-override", "PUT"}, "428", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := *r
			r.T = t
			c := r.dialHTTP2()
			fields := slices.Clone(tt.fields)
			for i, v := range fields {
				if v == "7" && tt.arrives == "" {
					fields[i] = "99"
				}
			}
			id := c.open(true, fields...)
			got := make(chan *h2reply, 1)
			go func() { defer close(got); got <- c.over(id) }()
			var s *h2reply
			arrived := ""
			select {
			case a := <-r.api.arrived:
				arrived = a.r.Method + " " + a.r.RequestURI
				if n := len(a.r.Header.Values("X-Fencing-Token")); n != 1 || a.r.Host != "a" {
					t.Errorf("%d tokens arrive, for host %q", n, a.r.Host)
				}
				a.answer()
				s = <-got
			case s = <-got:
			}
			if s == nil {
				return // told already
			}
			if s.status+s.reset != tt.want || arrived != tt.arrives {
				t.Errorf("status %q, reset %q, %q arrives; want %s, %q", s.status, s.reset, arrived, tt.want, tt.arrives)
			}
			if t.Failed() {
				return
			}
			c.alive()
		})
	}
	if high, _ := r.highest("account:42"); high != 7 {
		t.Errorf("the highest is %d: what is refused raises nothing", high)
	}
}

// An expectation that nobody knows does not hold the write up: all that the
// client has sent so far is read ahead.
func TestHTTP2StrangeExpectation(t *testing.T) {
	r := newRig(t, nil)
	got := make(chan struct{})
	r.api.serve = func(_ http.ResponseWriter, req *http.Request) {
		close(got)
		_, _ = io.Copy(io.Discard, req.Body)
	}
	c := r.dialHTTP2()
	id := c.open(false, "x-fencing-token", "1", "expect", "x")
	c.data(id, strings.Repeat("x", int(r.handler.books.current.Load().MaxBodyBuffer)), false)
	select {
	case <-got:
	case <-time.After(soon):
		t.Error("nothing arrives")
	}
	c.data(id, "", true)
	if s := c.over(id); s.status != "200" {
		t.Errorf("%+v", s)
	}
}

// A body that is not as long as its length says is no request.
func TestHTTP2BodyNotOfItsLength(t *testing.T) {
	for _, body := range []string{"abc", "abcdefghijk"} {
		r := newRig(t, nil)
		c := r.dialHTTP2()
		id := c.open(false, "x-fencing-token", "1", "content-length", "10")
		c.data(id, body, true)
		if s := c.over(id); s.status != "" || s.reset == "" {
			t.Errorf("%q: %+v", body, s)
		}
		r.nothing("it was refused")
		c.alive()
	}
}

// A token in a trailer never counts, and does not arrive.
func TestHTTP2TokenInATrailer(t *testing.T) {
	r := newRig(t, nil)
	c := r.dialHTTP2()
	id := c.open(false, "x-fencing-token", "7", "trailer", "x-fencing-token, x-sum")
	c.data(id, "abc", false)
	c.trailer(id, "x-fencing-token", "9", "x-sum", "5")
	a := r.next()
	if got := a.r.Trailer; got.Get("X-Sum") != "5" || got.Get("X-Fencing-Token") != "" || a.r.Header.Get("X-Fencing-Token") != "7" {
		t.Errorf("trailers %v arrive", got)
	}
	a.answer()
	c.over(id)
	if high, _ := r.highest("account:42"); high != 7 {
		t.Errorf("the highest is %d", high)
	}
}
