package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// What an HTTP/2 upstream does not take is not sent, and what it promises to
// have ignored may be sent again: the client is told which.
func TestHTTP2UpstreamRefuses(t *testing.T) {
	r := newRig(t, nil)
	l := listen(t)
	refuse := func(c net.Conn) { // every stream
		defer func() { _ = c.Close() }()
		_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
		fr := http2.NewFramer(c, c)
		_ = fr.WriteSettings(http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 2000})
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				return
			}
			if f.Header().Type == http2.FrameHeaders {
				_ = fr.WriteRSTStream(f.Header().StreamID, http2.ErrCodeRefusedStream)
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go refuse(c)
		}
	}()
	r.proxy("h2c://"+l.Addr().String(), nil)
	for _, row := range []struct {
		cookie string
		status int
		want   wire.Name
		detail string
		retry  bool
	}{
		{"small", 502, wire.UpstreamUnreachable, "promised", true},
		{strings.Repeat("x", 4000), 431, wire.BodyTooLarge, "header is larger", false},
	} {
		c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 1\nCookie: " + row.cookie + "\n\nx")
		res := c.receive()
		p := c.problem(res)
		if res.StatusCode != row.status || p.Status != row.status || p.Name() != row.want || p.Retryable != row.retry || p.Forwarded != wire.ForwardedNo ||
			!strings.Contains(p.Detail, row.detail) || res.Header.Get("Fencing-Forwarded") != "no" {
			t.Errorf("%s %s", res.Status, res.body)
		}
		if n := r.gate.Counts(); n.InFlight+n.Unsettled != 0 {
			t.Errorf("%+v", n)
		}
	}
}

// An HTTP/2 upstream can answer before its writer knows that the request was
// written: one that no fence touches is over all the same, with a body or without.
func TestHTTP2UpstreamUnfencedIsOver(t *testing.T) {
	r := newRig(t, nil)
	l := listen(t)
	api := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Protocols: new(http.Protocols)}
	api.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = api.Serve(l) }()
	t.Cleanup(func() { _ = api.Close() })
	r.proxy("h2c://"+l.Addr().String(), func(_ *Options, rules []Rule) {
		for i := range rules {
			rules[i].Settle = patience
		}
	})
	c := r.dial()
	for range 50 {
		for _, rest := range []string{"\n", "Content-Length: 1\n\nx"} {
			if res := c.send("PUT /login HTTP/1.1\nHost: a\n" + rest).receive(); res.StatusCode != 200 {
				t.Fatalf("%s %s", res.Status, res.body)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if r.handler.AwaitUnfenced(ctx) != nil {
		t.Error("a write that was answered counts as lost from sight")
	}
}

// A client of HTTP/2 may announce a length and trailers. They reach an upstream
// of HTTP/1.1, too.
func TestHTTP2TrailersBesideLength(t *testing.T) {
	r := newRig(t, nil)
	c := r.dialHTTP2()
	for _, row := range []struct {
		path string
		size int
	}{{"/accounts/42", 2}, {"/accounts/42", 40 << 10}, {"/login", 2}} { // read ahead, read ahead in part, and streamed
		size := row.size
		id := c.open(false, ":path", row.path, "x-fencing-token", "1", "content-length", strconv.Itoa(size), "trailer", "x-sum")
		for rest := size; rest > 0; rest -= 10 << 10 {
			c.data(id, strings.Repeat("x", min(rest, 10<<10)), false)
		}
		c.trailer(id, "x-sum", "9")
		a := r.next()
		if got := a.r.Trailer.Get("X-Sum"); got != "9" || len(a.body) != size {
			t.Errorf("trailer %q behind %d bytes", got, len(a.body))
		}
		a.answer()
		if res := c.over(id); res.status != "200" {
			t.Errorf("status %s", res.status)
		}
	}
}
