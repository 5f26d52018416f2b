package suites

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// What varnishtest cannot say, byte by byte.

// played starts an upstream that is played on each connection behind the head
// of a request, and the proxy in front of it.
func played(t *testing.T, play func(c *net.TCPConn, r *http.Request)) *torture.Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					play(c.(*net.TCPConn), r)
				}
			}()
		}
	}()
	return newProxy(t, l.Addr().String())
}

// dial connects a client to the proxy that sends a request.
func dial(t *testing.T, p *torture.Proxy, request string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), bufio.NewReader(c)
}

// Headers that came several times stay several, in their order, both ways.
func TestDuplicatedHeaders(t *testing.T) {
	t.Parallel()
	arrived := make(chan http.Header, 1)
	p := played(t, func(c *net.TCPConn, r *http.Request) {
		arrived <- r.Header
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nSet-Cookie: b=2\r\nLink: <1>\r\nset-cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n")
	})
	_, br := dial(t, p, "PUT /things/a HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nX-Thing: 2\nCookie: c=1\nx-thing: 1\nX-Thing: 2\nContent-Length: 0\n\n")
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := res.Header["Set-Cookie"], []string{"b=2", "a=1; Path=/", "b=2"}; !slices.Equal(got, want) {
		t.Errorf("Set-Cookie: %q, want %q", got, want)
	}
	if got, want := (<-arrived)["X-Thing"], []string{"2", "1", "2"}; !slices.Equal(got, want) {
		t.Errorf("X-Thing: %q, want %q", got, want)
	}
}

// A client that closes its sending side behind its request still gets the
// answer, once its write is admitted.
func TestHalfClosedClient(t *testing.T) {
	t.Parallel()
	arrived, closed := make(chan struct{}), make(chan struct{})
	p := played(t, func(c *net.TCPConn, _ *http.Request) {
		close(arrived)
		<-closed
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
	})
	c, br := dial(t, p, "PUT /things/a HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 1\n\nx")
	<-arrived
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // for the proxy to see it; too short only makes the test easier
	close(closed)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); string(body) != "done" || err != nil || res.Header.Get("Fencing-Result") != "admitted" {
		t.Errorf("%s %q %v", res.Status, body, err)
	}
}

// An HTTP/1.0 client finds the end of an answer without length where the
// connection ends. Where the upstream's answer was truncated it has to see a
// reset: a plain end would make it whole.
func TestTruncatedForHTTP10(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"a fenced write": "PUT /things/a HTTP/1.0\nHost: a\nX-Fencing-Token: 1\nContent-Length: 0\n\n",
		"a read":         "GET /things/a HTTP/1.0\nHost: a\n\n",
	} {
		p := played(t, func(c *net.TCPConn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
		})
		_, br := dial(t, p, answer)
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: a truncated answer ended with %q and %v, want a reset", name, body, err)
		}
	}
}

// A client that reads its answer only when it has uploaded everything gets to
// read the refusal: its upload is taken, and forgotten. The moment for this is
// bounded, so on a machine that is too busy an upload may break: not all of
// them.
func TestRefusedUploadIsTaken(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	defer close(over)
	p := played(t, func(c *net.TCPConn, r *http.Request) {
		status := "200 OK"
		if r.ContentLength != 0 {
			status = "413 Content Too Large"
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno", status)
		<-over // or its end resets the connection under the answer
	})
	_, br := dial(t, p, "PUT /things/a HTTP/1.1\nHost: a\nX-Fencing-Token: 5\nContent-Length: 0\n\n")
	if res, err := http.ReadResponse(br, nil); err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	body := string(content())
	chunk := "10000\r\n" + strings.Repeat("x", 0x10000) + "\r\n"
	for _, tt := range []struct {
		name, token string
		body        string
		status      int
	}{
		{"stale", "4", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", large, body), 409},
		{"stale, in chunks", "4", "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, large/0x10000) + "0\r\n\r\n", 409},
		{"stale, with an Expect that is not waited for", "4", fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n%s", large, body), 409},
		{"refused by the upstream", "5", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", large, body), 413},
		{"refused by the upstream, in chunks", "5", "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, large/0x10000) + "0\r\n\r\n", 413},
	} {
		var broken error
		for range 5 {
			c, br := dial(t, p, "PUT /things/a HTTP/1.1\nHost: a\nX-Fencing-Token: "+tt.token+"\n")
			if _, broken = io.WriteString(c, tt.body); broken != nil {
				continue
			}
			res, err := http.ReadResponse(br, nil)
			if err != nil || res.StatusCode != tt.status {
				t.Errorf("%s: %v %v, want %d", tt.name, res, err, tt.status)
			}
			break
		}
		if broken != nil {
			t.Errorf("%s: every upload broke: %v", tt.name, broken)
		}
	}
}
