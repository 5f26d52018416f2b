package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

// readSoon is what comes on c next, in one read.
func readSoon(t *testing.T, c net.Conn) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(soon))
	buf := make([]byte, 64<<10)
	n, err := c.Read(buf)
	if err != nil {
		t.Errorf("nothing comes: %v", err)
	}
	return string(buf[:n])
}

// plainAnswer ends a request that a test has read.
const plainAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// A small body that no fence touches leaves in one write with its head where it
// came so, and where it did not, what is here waits for nothing.
func TestSmallBodyWaitsForNothing(t *testing.T) {
	r := &rig{T: t, store: storetest.NewFaulty(memory.New())}
	got := make(chan net.Conn)
	r.played(func(c net.Conn) { got <- c; <-t.Context().Done() }, nil)
	head := "PUT /login HTTP/1.1\nHost: a\nContent-Length: 6\n\n"

	c := r.dial().send(head + "abcdef")
	u := <-got
	if sent := readSoon(t, u); !strings.HasSuffix(sent, "\r\n\r\nabcdef") {
		t.Errorf("the first write is %q, want head and body", sent)
	}
	if n := r.handler.buffered.Load(); n != 6 {
		t.Errorf("%d bytes are in memory, want the body's: it is streamed", n)
	}
	_, _ = io.WriteString(u, plainAnswer)
	c.receive()

	c.send(head) // the connection is as good as before
	u = <-got
	if sent := readSoon(t, u); !strings.HasSuffix(sent, "\r\n\r\n") {
		t.Errorf("the first write is %q, want the head", sent)
	}
	c.send("abc")
	if sent := readSoon(t, u); sent != "abc" {
		t.Errorf("then came %q, want what there is of the body", sent)
	}
	c.send("def")
	if sent := readSoon(t, u); sent != "def" {
		t.Errorf("then came %q, want the rest", sent)
	}
	_, _ = io.WriteString(u, plainAnswer)
	if a := c.receive(); a.Close {
		t.Error("the client's connection ends behind a whole body")
	}

	c.send(head + "abc")
	u = <-got
	sent := readSoon(t, u)
	for !strings.HasSuffix(sent, "\r\n\r\nabc") { // in one write or two
		if t.Failed() {
			t.Fatalf("%q came, want the head and what there is of the body", sent)
		}
		sent += readSoon(t, u)
	}
	c.send("def")
	if sent := readSoon(t, u); sent != "def" {
		t.Errorf("then came %q, want the rest", sent)
	}
	_, _ = io.WriteString(u, plainAnswer)
	c.receive()
	r.eventually("no memory is left reserved", func() bool { return r.handler.buffered.Load() == 0 })
}

// Small bodies of admitted writes, one after the other on one connection, as they
// may come.
func TestSmallBodiesOnOneConnection(t *testing.T) {
	r := newRig(t, nil)
	r.api.serve = func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	c := r.dial()
	head := "PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 6\n\n"
	for _, pieces := range [][]string{{head + "abcdef"}, {head + "abcde", "f"}, {head, "abcdef"}, {head + "abcdef" + head + "abcdef"}} {
		for i, piece := range pieces {
			if i > 0 {
				time.Sleep(20 * time.Millisecond) // it makes no difference to what has to come
			}
			c.send(piece)
		}
		for range strings.Count(strings.Join(pieces, ""), "PUT") {
			if a := c.receive(); a.StatusCode != 200 || a.body != "abcdef" || a.Close {
				t.Errorf("%q is answered %s %q (close: %v), want 200 and its body", pieces, a.Status, a.body, a.Close)
			}
		}
	}
}

// A client that leaves takes a request with it that no fence touches, and not a
// write that was admitted (rule 11). Both sent their small bodies at once.
func TestClientLeavesBehindSmallBody(t *testing.T) {
	r := &rig{T: t, store: storetest.NewFaulty(memory.New())}
	got := make(chan net.Conn)
	r.played(func(c net.Conn) { got <- c; <-t.Context().Done() }, nil)

	c := r.dial().send("PUT /login HTTP/1.1\nHost: a\nContent-Length: 6\n\nabcdef")
	u := <-got
	readSoon(t, u)
	_ = c.Close()
	_ = u.SetReadDeadline(time.Now().Add(soon))
	if _, err := u.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the upstream's connection: %v, want its end", err)
	}

	c = r.dial().put("1", "abcdef")
	u = <-got
	readSoon(t, u)
	_ = c.Close()
	_ = u.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := u.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the upstream's connection: %v, want that it stays", err)
	}
	if n := r.gate.Counts(); n.InFlight != 1 {
		t.Errorf("%+v, want the write in flight", n)
	}
	_, _ = io.WriteString(u, plainAnswer)
	r.eventually("it settles", func() bool { n := r.gate.Counts(); return n.InFlight == 0 && n.Unsettled == 0 })
}

// A body of which nothing has come takes no memory from others, however long it
// stays away.
func TestSilentBodyTakesNoMemory(t *testing.T) {
	r := &rig{T: t, store: storetest.NewFaulty(memory.New())}
	got := make(chan net.Conn)
	r.played(func(c net.Conn) { got <- c; <-t.Context().Done() }, nil)
	r.dial().send("PUT /login HTTP/1.1\nHost: a\nContent-Length: 600\n\n")
	readSoon(t, <-got)
	if n := r.handler.buffered.Load(); n != 0 {
		t.Errorf("%d bytes of max_buffered are taken", n)
	}
}

// opaque listens for connections about which the kernel cannot be asked: those
// of another system, or of a listener that wraps them.
type opaque struct{ net.Listener }

func (l opaque) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

// A client that leaves while its write waits is noticed there, too, behind a
// small body (rule 7).
func TestLeavesUnasked(t *testing.T) {
	r := newRig(t, nil)
	l := listen(t)
	srv := NewServer(r.handler, ServerOptions{HeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeader: 64 << 10})
	go func() { _ = srv.Serve(NewListener(opaque{l})) }()
	t.Cleanup(func() { _ = srv.Close() })
	r.dial().put("1", "abcdef")
	w1 := r.next()
	r.addr = l.Addr().String()
	c := r.dial().put("2", "abcdef")
	r.eventually("w2 waits", func() bool { return r.gate.Counts().Waiting == 1 })
	_ = c.Close()
	r.eventually("w2 is forgotten before its drain_timeout", func() bool { return r.gate.Counts().Waiting == 0 })
	w1.answer()
	r.nothing("the client has left")
}

// While it is held, a connection gives nothing, but to net/http's watch where
// that is wanted; and it can end one side alone.
func TestClientConnReaders(t *testing.T) {
	l := NewListener(listen(t))
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	c := accepted.(*clientConn)
	_, _ = io.WriteString(peer, "0123456789")
	for _, tt := range []struct {
		readers   int32
		one, many int
	}{{readersNone, 0, 0}, {readersWatch, 1, 0}, {readersAll, 1, 2}} {
		c.readers.Store(tt.readers)
		one, err1 := c.Read(make([]byte, 1))
		many, err2 := c.Read(make([]byte, 2))
		if one != tt.one || many != tt.many || err1 != nil || err2 != nil {
			t.Errorf("readers %d: %d of 1 (%v), %d of 2 (%v), want %d, %d and no error", tt.readers, one, err1, many, err2, tt.one, tt.many)
		}
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("behind CloseWrite the peer reads %v, want io.EOF", err)
	}
	_, _ = io.WriteString(peer, "more")
	if n, err := c.Read(make([]byte, 2)); n == 0 || err != nil {
		t.Errorf("the other side: %d bytes, %v, want that it goes on", n, err)
	}
}
