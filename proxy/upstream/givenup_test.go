package upstream

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Two tests of a write that the kernel has taken as a whole when nobody looks at
// it any more, and the upstream has not: it reads nothing for a while, as if the
// way to it were broken. Behind an ordinary close the kernel would go on sending
// it for minutes, and the upstream apply it long after the settle time.

// heldBack is the length of such a write's body.
const heldBack = 256 << 10

// backlog is an upstream that takes no connection for a while.
func backlog(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// sendHeldBack sends it, and calls sent when the last of it was read.
func sendHeldBack(t *testing.T, addr string, timeout time.Duration, sent func()) result {
	t.Helper()
	u := newUpstream(t, "http://"+addr)
	roomy(u)
	r := put()
	r.Timeout, r.Length, r.Interrupt = timeout, heldBack, func() {}
	r.Body = io.MultiReader(io.LimitReader(&zeros{heldBack}, heldBack-1), tail{sent})
	return exchangeOnce(t, context.Background(), u, r)
}

// tail is one byte at the end of a body.
type tail struct{ read func() }

func (b tail) Read(p []byte) (int, error) {
	b.read()
	return copy(p, "x"), io.EOF
}

// roomy makes u's connections take such a write without its upstream.
func roomy(u *Upstream) {
	dial := u.dial
	u.dial = func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if err == nil {
			err = c.(*net.TCPConn).SetWriteBuffer(4 * heldBack)
		}
		return c, err
	}
}

// comesToo fails where all of the body comes to the upstream.
func comesToo(t *testing.T, l net.Listener) {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		return // it was reset before anybody took it
	}
	defer c.Close()
	br := bufio.NewReader(c)
	for line := ""; line != "\r\n" && err == nil; {
		line, err = br.ReadString('\n')
	}
	if n, err := io.Copy(io.Discard, br); n == heldBack {
		t.Errorf("all of the write came to the upstream after it was given up (%v)", err)
	}
}

func TestGivenUpNeverLeaves(t *testing.T) {
	l := backlog(t)
	res := sendHeldBack(t, l.Addr().String(), time.Second, func() {})
	if res.outcome != unsettled(ReasonTimeout) || strings.Contains(res.err.Error(), errStall.Error()) {
		t.Fatalf("%v (%v), want the answer to be waited for in vain", res.outcome, res.err)
	}
	comesToo(t, l)
}

// A websocket that both sides have ended is lost from sight from then on, and so
// is what its upstream has not taken yet.
func TestEndedTunnelNeverLeaves(t *testing.T) {
	u, event, done := listen(t, func(w *wire) {
		w.head()
		w.say(switching + upgrading + fitting + "\r\n")
		w.CloseWrite()
		<-w.event
		if n, err := io.Copy(io.Discard, w.br); n == heldBack {
			w.t.Errorf("all that was said came to the upstream after the end (%v)", err)
		}
	})
	roomy(u)
	a, err := u.Send(context.Background(), opening())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Tunnel.Write(make([]byte, heldBack)); err != nil {
		t.Error(err)
	}
	a.Tunnel.CloseWrite()
	if rest, err := io.ReadAll(a.Tunnel); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	a.Tunnel.End(ReasonEnded, nil)
	a.Close()
	event <- struct{}{}
	done()
}

// closes waits until c is closed by who sent on it.
func closes(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	for end := time.Now().Add(5 * time.Second); err == nil; time.Sleep(lastWords / 10) {
		if time.Now().After(end) {
			t.Error("the connection goes on")
			return
		}
		err = raw.Control(func(uintptr) {})
	}
}

// An answer that does not prove that the write is over (A2) may come before the
// upstream has taken the write. The next request is not sent behind it either.
func TestUnprovenNeverLeaves(t *testing.T) {
	for name, idle := range map[string]time.Duration{"closed": 0, "kept": time.Minute} {
		t.Run(name, func(t *testing.T) {
			u, event, done := listen(t, func(w *wire) {
				w.head()
				w.say("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
				<-w.event
				if n, err := io.Copy(io.Discard, w.br); n == heldBack {
					w.t.Errorf("all of the write came to the upstream when its settle time may be over (%v)", err)
				}
			})
			u.unsettled, u.pool.ttl = []int{202}, idle
			roomy(u)
			var near net.Conn
			dial := u.dial
			u.dial = func(ctx context.Context) (c net.Conn, err error) {
				c, err = dial(ctx)
				near = c
				return c, err
			}
			r := put()
			r.Length, r.Interrupt = heldBack, func() {}
			r.Body = io.LimitReader(&zeros{heldBack}, heldBack)
			if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonStatus(202)) {
				t.Errorf("%v (%v), want the 202", res.outcome, res.err)
			}
			closes(t, near)
			event <- struct{}{}
			u.Close()
			done()
		})
	}
}

// One that answers early and reads on gets what it has accepted.
func TestUnprovenArrives(t *testing.T) {
	came := int64(0)
	for try := 0; came < heldBack && try < 5; try++ { // a busy machine may be too slow for lastWords
		u, event, done := listen(t, func(w *wire) {
			w.head()
			w.say("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
			<-w.event
			came, _ = io.Copy(io.Discard, w.br)
		})
		u.unsettled = []int{202}
		roomy(u)
		r := put()
		r.Length, r.Interrupt = heldBack, func() {}
		r.Body = io.LimitReader(&zeros{heldBack}, heldBack)
		if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonStatus(202)) {
			t.Errorf("%v (%v), want the 202", res.outcome, res.err)
		}
		event <- struct{}{}
		done()
	}
	if came < heldBack {
		t.Errorf("%d bytes came of %d", came, heldBack)
	}
}

// The start behind a crash waits for the settle time, too.
func TestKilledNeverLeaves(t *testing.T) {
	const variable = "FENCEPROXY_TEST_UPSTREAM"
	if addr := os.Getenv(variable); addr != "" {
		sendHeldBack(t, addr, time.Minute, func() { os.Stdout.WriteString("read\n") })
		return
	}
	l := backlog(t)
	child := exec.Command(os.Args[0], "-test.run=^TestKilledNeverLeaves$")
	child.Env = append(os.Environ(), variable+"="+l.Addr().String())
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	time.Sleep(50 * time.Millisecond) // the kernel takes the last of it; where it has not, that is as good
	child.Process.Kill()
	child.Wait()
	if err != nil {
		t.Fatalf("the child has sent nothing: %v", err)
	}
	comesToo(t, l)
}
