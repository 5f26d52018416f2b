package torture

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// Why a client has no answer: Event.Name of Gone.
const (
	Left   = "left"   // it left itself
	Broken = "broken" // the connection broke
	Silent = "silent" // nothing came until its patience ended
)

// ErrNotSent is wrapped by the error of a Reaction when no connection could be
// made: the write is in no history.
var ErrNotSent = errors.New("no connection")

// problemSize is how much of a body is kept, to read a problem from it.
const problemSize = 16 << 10

// Client sends writes over raw sockets, so that it can stall and leave at any
// byte, or as streams. It never sends anything twice. It is for one goroutine at a time.
type Client struct {
	Addr string
	H    *History
	Keep bool // use a connection for more than one write
	// Dial makes a connection, where it is not simply one to Addr.
	Dial func() (net.Conn, error)
	// Streams, where it is not nil, has every write as a stream of its connection,
	// see NewStreams.
	Streams *http.Transport

	conn net.Conn
	br   *bufio.Reader
}

// Close ends the kept connection.
func (c *Client) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// Do sends w, follows its answer as w says, and records Send and then Answer
// or Gone.
func (c *Client) Do(w Write) Reaction {
	if c.Streams != nil {
		return c.doH2(w)
	}
	if c.conn == nil {
		dial := c.Dial
		if dial == nil {
			dial = func() (net.Conn, error) { return net.DialTimeout("tcp", c.Addr, 5*time.Second) }
		}
		conn, err := dial()
		if err != nil {
			return Reaction{Err: fmt.Errorf("%w: %w", ErrNotSent, err)}
		}
		c.conn, c.br = conn, bufio.NewReader(conn)
	}
	c.conn.SetDeadline(time.Now().Add(w.patience()))
	var left atomic.Bool
	conn := c.conn
	leave := func() {
		left.Store(true)
		if tcp, ok := conn.(*net.TCPConn); ok && !w.Softly {
			tcp.SetLinger(0)
		}
		conn.Close()
	}
	if w.Leave > 0 {
		defer time.AfterFunc(w.Leave, leave).Stop()
	}
	if w.LeaveOn != nil {
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-w.LeaveOn:
				leave()
			case <-over:
			}
		}()
	}

	c.H.Add(w.Event(Send))
	up := &upload{conn: c.conn, w: w, stop: make(chan struct{}), over: make(chan struct{}), cont: make(chan struct{})}
	go up.send()
	r := c.read(w, up)
	close(up.stop)
	if c.Keep && r.Whole { // the answer may be here before the upload knows that it was whole
		select {
		case <-up.over:
		case <-time.After(100 * time.Millisecond): // refused early, or the upload stalls
		}
	}
	if !c.Keep || w.HalfClose || r.Err != nil || !r.Whole || r.last || !up.whole.Load() || left.Load() {
		c.Close()
	}
	<-up.over
	c.tell(w, r, left.Load())
	return r
}

// tell records what came of w: Answer or Gone.
func (c *Client) tell(w Write, r Reaction, left bool) {
	if r.Status != 0 {
		c.H.Add(r.event(w))
		return
	}
	gone := w.Event(Gone)
	switch {
	case left:
		gone.Name = Left
	case errors.Is(r.Err, os.ErrDeadlineExceeded), errors.Is(r.Err, context.DeadlineExceeded):
		gone.Name = Silent
	default:
		gone.Name = Broken
	}
	c.H.Add(gone)
}

// read follows the answer to its end.
func (c *Client) read(w Write, up *upload) (r Reaction) {
	var resp *http.Response
	for {
		var err error
		if resp, err = http.ReadResponse(c.br, &http.Request{Method: http.MethodPut}); err != nil {
			r.Err = fmt.Errorf("reading the answer: %w", err)
			return r
		}
		if resp.StatusCode >= 200 {
			break
		}
		if !r.Continued && resp.StatusCode == http.StatusContinue {
			r.Continued = true
			close(up.cont)
		}
	}
	c.follow(w, resp, &r)
	return r
}

// follow reads the answer behind its head.
func (c *Client) follow(w Write, resp *http.Response, r *Reaction) {
	r.At = c.H.Now()
	r.Status, r.Header = resp.StatusCode, resp.Header
	time.Sleep(w.ReadStall)
	var body bytes.Buffer
	buf := make([]byte, 16<<10)
	for {
		if w.ReadPause > 0 {
			time.Sleep(w.ReadPause)
		}
		n, err := resp.Body.Read(buf)
		r.Body += n
		body.Write(buf[:min(n, problemSize-body.Len())])
		if err == io.EOF {
			r.Whole = true
			break
		}
		if err != nil {
			r.Err = fmt.Errorf("reading the answer's body: %w", err)
			break
		}
	}
	r.last = resp.Close
	r.Problem = problem(resp.Header, body.Bytes())
}

// upload is the sending half of one write.
type upload struct {
	conn  io.Writer
	w     Write
	stop  chan struct{} // closed when the answer is over
	cont  chan struct{} // closed when a 100 came
	over  chan struct{} // closed when nothing is sent any more
	whole atomic.Bool   // everything was sent
}

// send writes head and body with the stall that the write asks for. Errors
// are not told: what counts is the answer.
func (u *upload) send() {
	defer close(u.over)
	if u.w.Expect {
		if _, err := io.WriteString(u.conn, u.w.head()); err != nil || !u.wait(u.cont, -1) {
			return
		}
	}
	var out []byte
	if !u.w.Expect {
		out = []byte(u.w.head())
	}
	u.body(out)
	if tcp, ok := u.conn.(*net.TCPConn); ok && u.w.HalfClose && u.whole.Load() {
		tcp.CloseWrite()
	}
}

// body writes the body behind out, what there is to be sent before it.
func (u *upload) body(out []byte) {
	first := u.w.Body
	if u.w.StallAfter > 0 {
		first = min(first, u.w.StallAfter)
	}
	if _, err := u.conn.Write(append(out, bytes.Repeat([]byte{'b'}, first)...)); err != nil {
		return
	}
	if rest := u.w.Body - first; rest > 0 {
		if !u.wait(u.w.Rest, u.w.Stall) {
			return
		}
		if _, err := u.conn.Write(bytes.Repeat([]byte{'b'}, rest)); err != nil {
			return
		}
	}
	u.whole.Store(true)
}

// wait pauses until ch is closed or, for d >= 0, d is over; false means that
// the answer came first.
func (u *upload) wait(ch <-chan struct{}, d time.Duration) bool {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ch:
		return true
	case <-timer:
		return true
	case <-u.stop:
		return false
	}
}
