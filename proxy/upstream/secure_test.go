package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// raw says something below TLS.
func (w *wire) raw(s string) { io.WriteString(w.socket(), s) }

// TestOutcomeSecure is what only TLS can do to a write.
func TestOutcomeSecure(t *testing.T) {
	fin := func(w *wire) { w.socket().CloseWrite() }
	playRows(t, []outcomeRow{
		{"until close, closed with FIN alone", nil, func(w *wire) { w.request(); w.say("HTTP/1.0 200 OK\r\n\r\nall"); fin(w) }, unsettled(ReasonTruncated), 200, "all", io.ErrUnexpectedEOF},
		{"until close, closed within a record", nil, func(w *wire) {
			w.request()
			w.say("HTTP/1.0 200 OK\r\n\r\nall")
			w.raw("\x17\x03\x03\x00")
			fin(w)
		}, unsettled(ReasonTruncated), 200, "all", io.ErrUnexpectedEOF},
		{"FIN alone before an answer", nil, func(w *wire) { w.request(); fin(w) }, unsettled(ReasonClosed), 0, "", nil},
		{"FIN alone behind a whole answer", nil, func(w *wire) { w.request(); w.say(ok); fin(w) }, settled, 200, "ok", nil},
		{"FIN alone behind chunks", nil, func(w *wire) { w.request(); w.say(chunkedH + "2\r\nok\r\n"); fin(w) }, unsettled(ReasonTruncated), 200, "ok", io.ErrUnexpectedEOF},
		{"a record that was tampered with", nil, func(w *wire) {
			w.request()
			w.raw("\x17\x03\x03\x00\x20" + hello + hello + hello + hello + hello + hello + "xx")
		}, unsettled(ReasonBadAnswer), 0, "", nil},
		{"no record", nil, func(w *wire) { w.request(); w.raw(ok) }, unsettled(ReasonBadAnswer), 0, "", nil},
		{"reset within an answer", nil, func(w *wire) { w.request(); w.say(ok[:len(ok)-1]); w.reset() }, unsettled(ReasonReset), 200, "o", errAny},
	}, func(t *testing.T, script func(*wire)) (*Upstream, chan struct{}, func()) {
		return listenTLS(t, func(w *wire) {
			if err := w.Conn.(*tls.Conn).Handshake(); err != nil {
				t.Error(err)
			}
			script(w)
		})
	})
}

// cutoff lets through so many bytes behind the handshake, and then ends the
// stream as anybody on the way could.
type cutoff struct {
	*net.TCPConn
	on   atomic.Bool
	left int
	sent int
}

func (c *cutoff) Write(p []byte) (int, error) {
	if !c.on.Load() {
		return c.TCPConn.Write(p)
	}
	n := min(len(p), c.left)
	c.left -= n
	c.sent += n
	c.TCPConn.Write(p[:n])
	if n < len(p) {
		c.CloseWrite()
	}
	return len(p), nil
}

// An answer that ends with the connection is whole only behind the last byte of
// the close_notify, wherever else it ends.
func TestEveryTruncationTLS(t *testing.T) {
	a := newAuthority(t)
	l, config := a.listen(nil)
	defer l.Close()
	try := func(left int) (sent int, res result) {
		ended := make(chan int)
		go func() {
			nc, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			cut := &cutoff{TCPConn: nc.(*net.TCPConn), left: left}
			c := tls.Server(cut, config)
			w := &wire{t: t, Conn: c, br: bufio.NewReader(c)}
			w.request()
			cut.on.Store(true)
			w.say("HTTP/1.0 200 OK\r\n\r\n")
			w.say("all")
			c.CloseWrite()
			io.Copy(io.Discard, nc)
			ended <- cut.sent
		}()
		res = exchangeOnce(t, context.Background(), a.upstream(l.Addr().String(), 0, nil), put())
		return <-ended, res
	}
	whole, res := try(1 << 20)
	if res.outcome != settled || res.body != "all" || whole < 60 {
		t.Fatalf("%d bytes: %v %q (%v)", whole, res.outcome, res.body, res.err)
	}
	for left := range whole {
		if _, res := try(left); res.outcome.Fate != Unsettled || res.err == nil || res.outcome.Reason == ReasonBadAnswer {
			t.Fatalf("%d of %d bytes: %v, error %v", left, whole, res.outcome, res.err)
		}
	}
}

// manyTLS starts an upstream that plays script on each connection, numbered from
// 1.
func manyTLS(t *testing.T, change func(*tls.Config), script func(n int, w *wire)) (u *Upstream, done func()) {
	t.Helper()
	a := newAuthority(t)
	l, config := a.listen(change)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer nc.Close()
				c := tls.Server(nc, config)
				script(n, &wire{t: t, Conn: c, br: bufio.NewReader(c)})
				io.Copy(io.Discard, nc)
			})
		}
	})
	u = a.upstream(l.Addr().String(), time.Minute, nil)
	return u, func() {
		t.Helper()
		u.Close()
		l.Close()
		wg.Wait()
		nothingLeft(t)
	}
}

// Connections are kept although session tickets come behind the handshake, and
// are not used again when anything but those has come.
func TestReuseTLS(t *testing.T) {
	for name, row := range map[string]struct {
		server    func(*tls.Config)
		meanwhile func(*wire) // between the second request and the third
		third     string      // the connection of the third request
	}{
		"TLS 1.3":            {nil, func(*wire) {}, "1"},
		"TLS 1.2":            {func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, func(*wire) {}, "1"},
		"close_notify":       {nil, func(w *wire) { w.CloseWrite() }, "2"},
		"FIN alone":          {nil, func(w *wire) { w.socket().CloseWrite() }, "2"},
		"reset":              {nil, func(w *wire) { w.reset() }, "2"},
		"an unasked answer":  {nil, func(w *wire) { w.say(ok) }, "2"},
		"one byte too early": {nil, func(w *wire) { w.say("\n") }, "2"},
		"a part of a record": {nil, func(w *wire) { w.raw("\x17") }, "2"},
		"half a record":      {nil, func(w *wire) { w.raw("\x17\x03\x03\x00\x20abc") }, "2"},
		"a broken record":    {nil, func(w *wire) { w.raw("\x17\x03\x03\x00\x01a") }, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			next, happened := make(chan struct{}), make(chan struct{})
			var requests atomic.Int32
			u, done := manyTLS(t, row.server, func(n int, w *wire) {
				for i := 1; ; i++ {
					if _, err := w.br.Peek(1); err != nil {
						return
					}
					w.request()
					requests.Add(1)
					w.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + string(rune('0'+n)))
					if n == 1 && i == 2 {
						<-next
						row.meanwhile(w)
						close(happened)
					}
				}
			})
			for i, want := range []string{"1", "1", row.third} {
				if i == 2 {
					close(next)
					<-happened
					if row.third == "2" {
						untilArrived(t, u)
					}
				}
				if res := exchangeOnce(t, context.Background(), u, put()); res.outcome != settled || res.body != want {
					t.Errorf("request %d: %v on connection %q, want %q (%v)", i+1, res.outcome, res.body, want, res.err)
				}
			}
			done()
			if n := requests.Load(); n != 3 {
				t.Errorf("the upstream saw %d requests, want 3", n)
			}
		})
	}
}

// What comes behind an answer may be left in tls.Conn, decrypted already, where
// neither our buffer nor the socket shows it.
func TestBytesBehindAnswerTLS(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 4055\r\n\r\n"
	answer := head + strings.Repeat("x", 4055) // as long as the buffer that reads it
	u, done := manyTLS(t, func(c *tls.Config) { c.DynamicRecordSizingDisabled = true }, func(n int, w *wire) {
		for {
			if _, err := w.br.Peek(1); err != nil {
				return
			}
			w.request()
			w.say(answer + "HTTP/1.1 500 unasked\r\n\r\n")
		}
	})
	if len(answer) != 4096 {
		t.Errorf("an answer of %d bytes shows nothing", len(answer))
	}
	for range 2 {
		if res := exchangeOnce(t, context.Background(), u, put()); res.status != 200 || res.outcome != settled {
			t.Errorf("%d, %v (%v)", res.status, res.outcome, res.err)
		}
	}
	done()
}

// TestStaleConnectionTLS is TestStaleConnection: what counts is what the kernel
// took of the records, not what TLS says of the write.
func TestStaleConnectionTLS(t *testing.T) {
	for name, row := range map[string]struct {
		taken  int
		large  bool
		want   Outcome
		onward int32
	}{
		"no byte":               {0, false, settled, 1},
		"no byte, large upload": {0, true, settled, 1},
		"one byte":              {1, false, unsettled(ReasonReset), 0},
	} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int32
			u, done := manyTLS(t, nil, func(n int, w *wire) {
				if _, err := w.br.Peek(1); err != nil {
					return
				}
				seen.Add(1)
				w.head()
				if row.large {
					io.CopyN(io.Discard, w.br, 64<<20)
				} else {
					w.body(len(hello))
				}
				w.say(ok)
			})
			c, err := u.dial(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			s := c.(*secure)
			s.Conn = stale{s.Conn.(*net.TCPConn), row.taken}
			u.pool.put(s, time.Time{})
			r := put()
			if row.large {
				large(r)
			}
			if res := exchangeOnce(t, context.Background(), u, r); res.outcome != row.want {
				t.Errorf("outcome %v, want %v (%v)", res.outcome, row.want, res.err)
			}
			done()
			if n := seen.Load(); n != row.onward {
				t.Errorf("%d connections saw a request, want %d", n, row.onward)
			}
		})
	}
}

// pipedTLS is piped over TLS: the pipe takes a byte only when it is read below
// the upstream's TLS, through far.
func pipedTLS(t *testing.T, far func(net.Conn) net.Conn, script func(*wire)) (u *Upstream, done func()) {
	t.Helper()
	a := newAuthority(t)
	near, end := net.Pipe()
	// A ticket that nobody reads would hold up the handshake on a pipe.
	config := &tls.Config{Certificates: []tls.Certificate{a.issue(nil)}, SessionTicketsDisabled: true}
	u = a.upstream("127.0.0.1:1", 0, nil)
	u.dial = func(ctx context.Context) (net.Conn, error) {
		return handshake(ctx, near, TLS{Roots: a.pool()}.config("127.0.0.1"))
	}
	c := tls.Server(far(end), config)
	w := &wire{t: t, Conn: c, br: bufio.NewReader(c), finish: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer end.Close()
		if err := c.Handshake(); err != nil {
			t.Error(err)
		}
		script(w)
	}()
	return u, func() { close(w.finish); <-ended }
}

// sluggish takes a part at a time, after a pause, once it is told to.
type sluggish struct {
	net.Conn
	part  int
	pause *atomic.Int64
}

func (s sluggish) Read(p []byte) (int, error) {
	if pause := s.pause.Load(); pause > 0 {
		time.Sleep(time.Duration(pause))
		p = p[:min(len(p), s.part)]
	}
	return s.Conn.Read(p)
}

// TestTimingTLS plays in virtual time: a write that has to wait does not break
// TLS, and the time for the next byte begins anew with each that is taken. The
// response timeout is 10 s.
func TestTimingTLS(t *testing.T) {
	upload := func(r *Request) { r.Body, r.Length, r.Interrupt = &zeros{256 << 10}, 256<<10, func() {} }
	all := func(w *wire) { w.head(); io.CopyN(io.Discard, w.br, 256<<10); w.say(ok) }
	for name, row := range map[string]struct {
		req    func(*Request)
		pause  time.Duration
		part   int
		script func(*wire)
		want   Outcome
		after  time.Duration
	}{
		"an upstream that does not read for a second": {upload, 0, 0, func(w *wire) { time.Sleep(time.Second); all(w) }, settled, time.Second},
		"a small write not taken for a second":        {nil, 0, 0, func(w *wire) { time.Sleep(time.Second); w.request(); w.say(ok) }, settled, time.Second},
		"a slow upstream that takes bytes":            {upload, 6 * time.Second, 16 << 10, all, settled, 0},
		"an upstream that takes no byte":              {nil, 0, 0, func(w *wire) { w.wait() }, notSent(ReasonTimeout), 10*time.Second + firstWrite},
		"an upstream that takes no byte any more":     {upload, 0, 0, func(w *wire) { w.head(); w.wait() }, unsettled(ReasonTimeout), 10 * time.Second},
		"silence": {nil, 0, 0, func(w *wire) { w.request(); w.wait() }, unsettled(ReasonTimeout), 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pause atomic.Int64
				u, done := pipedTLS(t, func(c net.Conn) net.Conn { return sluggish{c, row.part, &pause} }, func(w *wire) {
					pause.Store(int64(row.pause))
					row.script(w)
				})
				r := put()
				if row.req != nil {
					row.req(r)
				}
				start := time.Now()
				res := exchangeOnce(t, context.Background(), u, r)
				if res.outcome != row.want {
					t.Errorf("outcome %v, want %v (%v)", res.outcome, row.want, res.err)
				}
				took := time.Since(start)
				switch {
				case row.pause > 0 && took < 10*row.pause:
					t.Errorf("after %v: the upstream was not slow", took)
				case row.pause == 0 && (took < row.after || took > row.after+2*firstWrite):
					t.Errorf("after %v, want %v", took, row.after)
				}
				done()
			})
		})
	}
}

// A connection on which everything is over ends as TLS wants it; one that is
// given up within a request does not.
func TestGoodbye(t *testing.T) {
	for name, row := range map[string]struct {
		ttl    time.Duration
		answer string
		want   error
	}{
		"closed behind the answer": {0, ok, io.EOF},
		"closed when idle":         {time.Minute, ok, io.EOF},
		"given up":                 {0, "not HTTP\r\n\r\n", syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			l, config := a.listen(nil)
			got := make(chan error, 1)
			_, done := play(t, l, func(w *wire) {
				c := tls.Server(plainEnd{w.Conn}, config)
				w.br = bufio.NewReader(c)
				w.request()
				io.WriteString(c, row.answer)
				_, err := w.br.ReadByte()
				got <- err
			})
			u := a.upstream(l.Addr().String(), row.ttl, nil)
			exchangeOnce(t, context.Background(), u, put())
			u.Close()
			if err := <-got; !errors.Is(err, row.want) {
				t.Errorf("the upstream read %v, want %v", err, row.want)
			}
			done()
		})
	}
}

// plainEnd tells a FIN from a close_notify, for the upstream's side.
type plainEnd struct{ net.Conn }

func (c plainEnd) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		err = errNoCloseNotify
	}
	return n, err
}

// An upstream cannot make us keep answers to its key updates without end.
func TestRepliesAreBounded(t *testing.T) {
	s := &secure{begun: true}
	for range 10 * maxReplies {
		if _, err := (*carrier)(s).Write([]byte("x")); err != nil {
			break
		}
	}
	if n := len(s.out); n < maxReplies || n > maxReplies+1 {
		t.Errorf("%d bytes are kept, want %d", n, maxReplies)
	}
	s.sealing = true
	if _, err := (*carrier)(s).Write(make([]byte, 10*maxReplies)); err != nil {
		t.Errorf("a request is not bounded: %v", err)
	}
}
