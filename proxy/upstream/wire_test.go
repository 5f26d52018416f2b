package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// wire is the upstream's end of one connection, used by a test's script.
type wire struct {
	t *testing.T
	net.Conn
	br     *bufio.Reader
	event  chan struct{} // the script tells the test that something happened
	finish chan struct{} // the test is over with the exchange
}

// head reads a request head and returns it.
func (w *wire) head() string {
	var b strings.Builder
	for !strings.HasSuffix(b.String(), "\r\n\r\n") {
		c, err := w.br.ReadByte()
		if err != nil {
			w.t.Errorf("upstream: the request head ended after %q: %v", b.String(), err)
			break
		}
		b.WriteByte(c)
	}
	return b.String()
}

func (w *wire) body(n int) string {
	p := make([]byte, n)
	if _, err := io.ReadFull(w.br, p); err != nil {
		w.t.Errorf("upstream: body of %d bytes: %v", n, err)
	}
	return string(p)
}

// request reads the default request, head and body.
func (w *wire) request() { w.head(); w.body(len(hello)) }

func (w *wire) say(s string) { io.WriteString(w, s) }

// reset ends the connection with RST.
func (w *wire) reset() {
	w.socket().SetLinger(0)
	w.socket().Close()
}

// CloseWrite ends what the upstream has to say: by FIN, or by TLS's close_notify.
func (w *wire) CloseWrite() { w.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// socket is what is below TLS.
func (w *wire) socket() *net.TCPConn {
	if c, ok := w.Conn.(*tls.Conn); ok {
		return c.NetConn().(*net.TCPConn)
	}
	return w.Conn.(*net.TCPConn)
}

// wait lasts until the test has closed its end.
func (w *wire) wait() { <-w.finish }

const hello = "hello"

// listen starts an upstream on a real socket that plays script on its first
// connection. The returned function waits until the proxy's end is closed.
func listen(t *testing.T, script func(*wire)) (u *Upstream, event chan struct{}, done func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	event, done = play(t, l, script)
	return newUpstream(t, "http://"+l.Addr().String()), event, done
}

// play plays script on the first connection of l.
func play(t *testing.T, l net.Listener, script func(*wire)) (event chan struct{}, done func()) {
	event, finish := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		w := &wire{t: t, Conn: c, br: bufio.NewReader(c), event: event, finish: finish}
		script(w)
		// Lasts until the other end is closed: a connection left behind hangs
		// the test here.
		io.Copy(io.Discard, c)
	})
	return event, func() {
		close(finish)
		l.Close()
		wg.Wait()
		nothingLeft(t)
	}
}

// nothingLeft fails when a goroutine of an exchange goes on running.
func nothingLeft(t *testing.T) {
	t.Helper()
	noneLeft(t, "upstream.(*exchange)")
}

// noneLeft fails when goroutines whose stacks hold one of the names stay. One
// that has told of its end may be seen for a moment, since it has yet to return;
// and the names stand also where they only say who started it.
func noneLeft(t *testing.T, names ...string) {
	t.Helper()
	buf := make([]byte, 1<<20)
	for range 1000 {
		stacks := string(buf[:runtime.Stack(buf, true)])
		if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(stacks, name) }) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("a goroutine is left behind:\n%s", buf[:runtime.Stack(buf, true)])
}

func newUpstream(t testing.TB, raw string) *Upstream {
	t.Helper()
	at, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u, err := New(Options{URL: at, PreserveHost: true, UnsettledStatuses: []int{202, 502, 504}, MaxHeader: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// put is the default request: an admitted PUT with a small body.
func put() *Request {
	return &Request{
		Method: "PUT", Target: "/accounts/42?x=%61", Host: "api.example",
		Header:     http.Header{"X-Fencing-Token": {"7"}},
		RemoteAddr: "192.0.2.1:5000", Scheme: "http",
		Body: bytes.NewReader([]byte(hello)), Length: int64(len(hello)),
		Timeout: 10 * time.Second, Follow: true,
	}
}

// zeros is a body that never blocks.
type zeros struct{ n int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.n == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.n)
	z.n -= n
	return int(n), nil
}

// large makes r an upload that no socket buffer takes at once.
func large(r *Request) {
	r.Length = 64 << 20
	r.Body = &zeros{r.Length}
	r.Interrupt = func() {}
}

// stalled makes r an upload whose client sends nothing after some bytes.
func stalled(r *Request) {
	pr, pw := io.Pipe()
	go io.WriteString(pw, "ab")
	r.Body, r.Length = pr, 10
	r.Interrupt = func() { pr.CloseWithError(errors.New("interrupted")) }
}

// result is all that a caller gets to see.
type result struct {
	outcome Outcome
	status  int // 0: Send failed
	body    string
	err     error // of Send or Read; nil after io.EOF
	refused bool
	answer  *Answer
}

// exchangeOnce sends r, reads the answer to its end, and closes it.
func exchangeOnce(t *testing.T, ctx context.Context, u *Upstream, r *Request) (res result) {
	t.Helper()
	a, err := u.Send(ctx, r)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("Send returned %T %v, want *Error", err, err)
		}
		return result{outcome: e.Outcome, err: err}
	}
	defer a.Close()
	body, err := io.ReadAll(a)
	res = result{status: a.Status, body: string(body), err: err, refused: a.Refused, answer: a}
	if err == nil {
		<-a.UploadDone()
	} else {
		a.Close()
	}
	res.outcome = a.Outcome()
	return res
}
