package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// TestUnprovenNeverLands: an upstream answers 202 before it takes the upload, and
// the client takes none of that. The upload must not come when the settle time,
// which began with the answer, is over.
func TestUnprovenNeverLands(t *testing.T) {
	const size, window = 24 << 10, 10
	r := newRig(t, nil)
	first, settled, came := make(chan struct{}), make(chan struct{}), make(chan int64, 1)
	l := listen(t)
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { // its kernel takes no more than a few thousand bytes
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		br := bufio.NewReader(c)
		for line := ""; line != "\r\n" && err == nil; {
			line, err = br.ReadString('\n')
		}
		_, _ = io.WriteString(c, "HTTP/1.1 202 Accepted\r\nContent-Length: 6010\r\n\r\n"+strings.Repeat("x", window))
		<-first
		_, _ = io.WriteString(c, strings.Repeat("x", 6000))
		<-settled
		n, _ := io.Copy(io.Discard, br)
		came <- n
	}()
	r.proxy("http://"+l.Addr().String(), nil)

	c := r.dialHTTP2(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	id := c.open(false, "x-fencing-token", "1", "content-length", "24576")
	c.data(id, strings.Repeat("x", size), true)
	for len(c.stream[id].body) < window {
		c.frame()
	}
	close(first)
	r.eventually("the write is unsettled", func() bool { return r.gate.Counts().Unsettled == 1 })
	r.eventually("its settle time is over", func() bool { return r.gate.Counts().Unsettled == 0 })
	close(settled)
	select {
	case n := <-came:
		if n >= size {
			t.Error("all of the write came behind its settle time")
		}
	case <-time.After(soon):
		t.Error("the upstream's connection is kept for a client that reads nothing")
	}
}

// A write that no fence touches is counted for its settle time as well: nothing of
// it may come later, or it would land behind a write that a reload has fenced.
func TestUnfencedWritesSettle(t *testing.T) {
	for _, away := range []bool{true, false} {
		x := &exchange{h: &Handler{}, r: httptest.NewRequest("PUT", "/x", nil), book: newBook(Rulebook{}), away: away}
		x.prepare("/x")
		if x.request.Settles != away || x.request.Follow {
			t.Errorf("away %v: settles %v, followed %v", away, x.request.Settles, x.request.Follow)
		}
	}
}
