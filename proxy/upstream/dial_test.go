package upstream

import (
	"bufio"
	"context"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// listenUnix starts an upstream on a unix socket that answers each request with
// the number of its connection.
func listenUnix(t *testing.T, path string, script func(n int, w *wire)) *Upstream {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				script(n, &wire{t: t, Conn: c, br: bufio.NewReader(c)})
			}()
		}
	}()
	return newUnix(t, path)
}

func newUnix(t *testing.T, path string) *Upstream {
	t.Helper()
	u, err := New(Options{URL: &url.URL{Scheme: "unix", Path: path}, IdleTimeout: time.Minute, ConnectTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

// A unix socket carries requests as TCP does: connections are kept, and one on
// which something happened meanwhile is not used again.
func TestUnixSocket(t *testing.T) {
	next, happened := make(chan struct{}), make(chan struct{})
	heads := make(chan string, 3)
	u := listenUnix(t, filepath.Join(servertest.SocketDir(t), "a%20b.sock"), func(n int, w *wire) {
		for i := 1; ; i++ {
			if _, err := w.br.Peek(1); err != nil {
				return
			}
			heads <- w.head()
			w.body(len(hello))
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + string(rune('0'+n)))
			if n == 1 && i == 2 {
				<-next
				w.Close()
				close(happened)
				return
			}
		}
	})
	for i, want := range []string{"1", "1", "2"} {
		if i == 2 {
			close(next)
			<-happened
		}
		res := exchangeOnce(t, context.Background(), u, put())
		if res.outcome != settled || res.body != want {
			t.Errorf("request %d: %v on connection %q, want %q (%v)", i, res.outcome, res.body, want, res.err)
		}
		if head := <-heads; !strings.Contains(head, "\r\nHost: localhost\r\n") || !strings.HasPrefix(head, "PUT /accounts/42?x=%61 HTTP/1.1\r\n") {
			t.Errorf("head %q", head)
		}
	}
}

func TestUnixSocketMissing(t *testing.T) {
	path := filepath.Join(servertest.SocketDir(t), "api.sock")
	res := exchangeOnce(t, context.Background(), newUnix(t, path), put())
	if want := notSent(ReasonRefused); res.outcome != want {
		t.Errorf("outcome %v, want %v", res.outcome, want)
	}
	for _, part := range []string{"unix:" + path, "no such file", "see that it is running"} {
		if !strings.Contains(res.err.Error(), part) {
			t.Errorf("%q does not say %q", res.err, part)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if res := exchangeOnce(t, context.Background(), newUnix(t, path), put()); res.outcome != notSent(ReasonRefused) {
		t.Errorf("nobody at the socket: %v, want not-sent (refused)", res.outcome)
	}
}

// The kernel refuses at once where the backlog of a unix socket is full. A
// request waits for its place, up to connect_timeout, and is sent once.
func TestUnixBacklogFull(t *testing.T) {
	path := filepath.Join(servertest.SocketDir(t), "api.sock")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		t.Skip("this kernel has no end to a backlog")
	}
	d := &dialer{network: "unix", addr: path, timeout: 10 * time.Second}
	// In virtual time: the kernel refuses at once, so that nothing waits but the
	// pauses between the attempts.
	synctest.Test(t, func(t *testing.T) {
		u := newUnix(t, path)
		u.dial = d.dial
		if res := exchangeOnce(t, context.Background(), u, put()); res.outcome != notSent(ReasonConnectTimeout) || !strings.Contains(res.err.Error(), "backlog") {
			t.Errorf("a backlog that stays full: %v (%v)", res.outcome, res.err)
		}
	})
	u := newUnix(t, path)
	u.dial = d.dial
	result := make(chan result, 1)
	go func() { result <- exchangeOnce(t, context.Background(), u, put()) }()
	answered := 0
	for range 2 { // the one that fills the backlog, and then ours
		nfd, _, err := syscall.Accept(fd)
		if err != nil {
			t.Fatal(err)
		}
		if answered++; answered == 1 {
			syscall.Close(nfd)
			continue
		}
		buf := make([]byte, 4096)
		syscall.Read(nfd, buf)
		syscall.Write(nfd, []byte(ok))
		syscall.Close(nfd)
	}
	if res := <-result; res.outcome != settled || res.body != "ok" {
		t.Errorf("a backlog that was full: %v %q (%v)", res.outcome, res.body, res.err)
	}
}
