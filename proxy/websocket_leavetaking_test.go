package proxy

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/zap"
)

// brim is a listener of one connection whose kernel has no room for a byte that the
// client does not take: a pipe.
type brim struct {
	net.Listener
	one chan net.Conn
}

func (b brim) Accept() (net.Conn, error) {
	if c, ok := <-b.one; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Over TLS the end of a websocket is said to the client. A raise does not wait for
// one that does not take even that, which crypto/tls would do for five seconds.
func TestWebSocketLeaveTaking(t *testing.T) {
	s := newSockets(t, time.Minute)
	known := httptest.NewTLSServer(nil) // it has a certificate
	defer known.Close()
	near, far := net.Pipe()
	l := brim{listen(t), make(chan net.Conn, 1)}
	l.one <- tls.Server(near, &tls.Config{Certificates: known.TLS.Certificates})
	srv := NewServer(s.handler, ServerOptions{})
	go func() { _ = srv.Serve(NewListener(l)) }()
	t.Cleanup(func() { close(l.one); _ = srv.Close() })

	secure := tls.Client(far, &tls.Config{InsecureSkipVerify: true})
	t.Cleanup(func() { _ = far.Close() })
	c := &conn{s.rig, secure, bufio.NewReader(secure)}
	c.send("GET /feed/1" + handshake + "X-Fencing-Token: 1\n\n")
	expect(t, c.br, "HTTP/1.1 101 Switching Protocols\r\n")
	u := <-s.opened
	t.Cleanup(func() { _ = u.Close() })
	for line := ""; line != "\r\n"; {
		line, _ = c.br.ReadString('\n')
	}
	expect(t, c.br, "hello")

	start := time.Now()
	next := s.raise("/feed/1", 2)
	s.eventually("the websocket is cut", func() bool { return s.logs.FilterField(zap.String("unsettled", "cut")).Len() == 1 })
	if took := time.Since(start); took >= 5*time.Second {
		t.Errorf("the raise waited %v for the client", took)
	}
	if res := next.receive(); res.StatusCode != 200 {
		t.Error(res.Status)
	}
}
