package upstream

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// listenMany starts an upstream that plays script on each connection, numbered
// from 1, and keeps idle connections for a minute.
func listenMany(t *testing.T, script func(n int, w *wire)) (u *Upstream, done func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u = newUpstream(t, "http://"+l.Addr().String())
	u.pool.ttl = time.Minute
	event := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				script(n, &wire{t: t, Conn: c, br: bufio.NewReader(c), event: event})
				io.Copy(io.Discard, c)
			})
		}
	})
	return u, func() {
		t.Helper()
		u.Close()
		l.Close()
		wg.Wait()
		nothingLeft(t)
	}
}

// TestReuse sends two requests. The upstream answers each on the connection that
// it comes on, naming it, so the second answer tells which one was used.
func TestReuse(t *testing.T) {
	const named = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n#"
	rows := []struct {
		name   string
		answer string // to the first request; # stands for the connection's number
		req    func(*Request)
		second string // body of the second answer: the number of its connection
	}{
		{"length", named, nil, "1"},
		{"chunked", chunkedH + "1\r\n#\r\n0\r\nX: y\r\n\r\n", nil, "1"},
		{"no body", "HTTP/1.1 204 No Content\r\n\r\n", nil, "1"},
		{"after a 103", "HTTP/1.1 103 E\r\n\r\n" + named, nil, "1"},
		{"refused", "HTTP/1.1 409 X\r\nContent-Length: 0\r\n\r\n", nil, "1"},
		{"chunked upload", named, func(r *Request) { r.Body, r.Length, r.Interrupt = strings.NewReader(hello), -1, func() {} }, "1"},
		{"the upstream closes", strings.Replace(named, "\r\n", "\r\nConnection: close\r\n", 1), nil, "2"},
		{"HTTP/1.0", strings.Replace(named, "/1.1", "/1.0", 1), nil, "2"},
		{"bytes behind the answer", named + "H", nil, "2"},
		{"204 with a length", "HTTP/1.1 204 No Content\r\nContent-Length: 1\r\n\r\n", nil, "2"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			u, done := listenMany(t, func(n int, w *wire) {
				number := string(rune('0' + n))
				if n == 1 {
					if head := w.head(); strings.Contains(head, "chunked") {
						w.body(len("5\r\nhello\r\n0\r\n\r\n"))
					} else {
						w.body(len(hello))
					}
					w.say(strings.ReplaceAll(row.answer, "#", number))
				}
				if _, err := w.br.Peek(1); err != nil {
					return
				}
				w.request()
				w.say(strings.ReplaceAll(named, "#", number))
			})
			r := put()
			if row.req != nil {
				row.req(r)
			}
			if res := exchangeOnce(t, context.Background(), u, r); res.outcome != settled {
				t.Errorf("first: %v (%v)", res.outcome, res.err)
			}
			if res := exchangeOnce(t, context.Background(), u, put()); res.outcome != settled || res.body != row.second {
				t.Errorf("second: %v on connection %q, want %q (%v)", res.outcome, res.body, row.second, res.err)
			}
			done()
		})
	}
}

// What happens on a connection while it is idle makes it unfit.
func TestIdleConnectionUnfit(t *testing.T) {
	for name, meanwhile := range map[string]func(*wire){
		"closed":             func(w *wire) { w.CloseWrite() },
		"reset":              func(w *wire) { w.reset() },
		"an unasked answer":  func(w *wire) { w.say(ok) },
		"one byte too early": func(w *wire) { w.say("\n") },
	} {
		t.Run(name, func(t *testing.T) {
			next, happened := make(chan struct{}), make(chan struct{})
			u, done := listenMany(t, func(n int, w *wire) {
				w.request()
				w.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + string(rune('0'+n)))
				if n == 1 {
					<-next
					meanwhile(w)
					close(happened)
				}
			})
			exchangeOnce(t, context.Background(), u, put())
			close(next)
			<-happened
			untilArrived(t, u)
			if res := exchangeOnce(t, context.Background(), u, put()); res.outcome != settled || res.body != "2" {
				t.Errorf("%v on connection %q, want a fresh one (%v)", res.outcome, res.body, res.err)
			}
			done()
		})
	}
}

// untilArrived waits until something is there to be read on the idle connection:
// on a busy machine, loopback too delivers a little behind the write.
func untilArrived(t *testing.T, u *Upstream) {
	t.Helper()
	u.pool.mu.Lock()
	c := u.pool.idle[0].Conn
	u.pool.mu.Unlock()
	if s, ok := c.(*secure); ok {
		c = s.Conn
	}
	rc, err := rawOf(c)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if cerr := rc.Control(func(fd uintptr) {
		for n, err = 0, unix.EINTR; err == unix.EINTR; { // of the runtime's own signals
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 30_000)
		}
	}); cerr != nil || err != nil || n != 1 {
		t.Fatalf("nothing arrives on the idle connection: %v, %v", cerr, err)
	}
}

// stale is a real connection that is quiet while idle, takes n bytes of a write
// and then fails.
type stale struct {
	*net.TCPConn
	n int
}

func (s stale) Write([]byte) (int, error) { return s.n, broke("write") }
func (s stale) Read([]byte) (int, error)  { return 0, io.EOF }

// A kept connection on which no byte was taken has sent nothing: the request
// goes out on a fresh one, with its body. After one byte it never does (J).
func TestStaleConnection(t *testing.T) {
	for name, row := range map[string]struct {
		taken  int
		large  bool
		want   Outcome
		onward int // connections that saw a request
	}{
		"no byte":               {0, false, settled, 1},
		"no byte, large upload": {0, true, settled, 1},
		"one byte":              {1, false, unsettled(ReasonReset), 0},
	} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan int, 2)
			u, done := listenMany(t, func(n int, w *wire) {
				if _, err := w.br.Peek(1); err != nil {
					return
				}
				seen <- n
				w.head()
				if row.large {
					io.CopyN(io.Discard, w.br, 64<<20)
				} else {
					w.body(len(hello))
				}
				w.say(ok)
			})
			c, err := net.Dial("tcp", u.addr)
			if err != nil {
				t.Fatal(err)
			}
			u.pool.put(stale{c.(*net.TCPConn), row.taken}, time.Time{})
			r := put()
			if row.large {
				large(r)
			}
			asked := 0
			r.MaySend = func() bool { asked++; return true }
			res := exchangeOnce(t, context.Background(), u, r)
			if res.outcome != row.want {
				t.Errorf("outcome %v, want %v (%v)", res.outcome, row.want, res.err)
			}
			if asked < 1+row.onward || asked > 1+row.onward && !row.large { // and before each part that follows
				t.Errorf("asked for leave %d times, want it before every first byte: %d", asked, 1+row.onward)
			}
			done()
			if len(seen) != row.onward {
				t.Errorf("%d connections saw a request, want %d", len(seen), row.onward)
			}
		})
	}
}

func TestIdleExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool{ttl: 3 * time.Second}
		ends := make([]net.Conn, 2)
		for i := range ends {
			near, far := net.Pipe()
			ends[i] = far
			p.put(near, time.Time{})
			time.Sleep(time.Second)
		}
		for i, far := range ends { // the first is two seconds old, the second one
			start := time.Now()
			if _, err := far.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("connection %d: %v", i, err)
			}
			if took, want := time.Since(start), time.Second; took != want {
				t.Errorf("connection %d was closed after %v, want %v", i, took, want)
			}
		}
		synctest.Wait()
		if p.timer != nil || len(p.idle) > 0 {
			t.Errorf("left behind: %v, %d connections", p.timer, len(p.idle))
		}
		p.close()
		near, far := net.Pipe()
		p.put(near, time.Time{})
		if _, err := far.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a connection was kept after Close: %v", err)
		}
	})
}

// deadlines notes when the deadlines of a connection are taken back.
type deadlines struct {
	net.Conn
	cleared bool
}

func (d *deadlines) SetDeadline(t time.Time) error {
	d.cleared = d.cleared || t.IsZero()
	return d.Conn.SetDeadline(t)
}

// A deadline that came while a connection is idle would make it useless; one
// that comes later is left as it is.
func TestIdleDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool{ttl: 3 * time.Second}
		defer p.close()
		for _, row := range []struct {
			until   time.Time
			cleared bool
		}{
			{time.Time{}, true},
			{time.Now().Add(time.Second), true},
			{time.Now().Add(3 * time.Second), true},
			{time.Now().Add(3*time.Second + 1), false},
		} {
			near, _ := net.Pipe()
			d := &deadlines{Conn: near}
			if p.put(d, row.until); d.cleared != row.cleared {
				t.Errorf("until %v: taken back: %v", row.until, d.cleared)
			}
		}
	})
}
