package torture

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"
)

// NewStreams makes an HTTP/2 connection (h2c) that clients share, and makes it
// again whenever it broke. A nil dial is the usual one.
func NewStreams(dial func() (net.Conn, error)) *http.Transport {
	t := &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true,
		ExpectContinueTimeout: time.Hour, // no body before the 100
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	if dial != nil {
		t.DialContext = func(context.Context, string, string) (net.Conn, error) { return dial() }
	}
	return t
}

// doH2 is Do as a stream. To leave is to reset it; HalfClose is what every
// stream does, and Softly says nothing of one.
func (c *Client) doH2(w Write) (r Reaction) {
	ctx, cancel := context.WithTimeout(context.Background(), w.patience())
	defer cancel()
	var left atomic.Bool
	leave := func() {
		left.Store(true)
		cancel()
	}
	if w.Leave > 0 {
		defer time.AfterFunc(w.Leave, leave).Stop()
	}
	if w.LeaveOn != nil {
		go func() {
			select {
			case <-w.LeaveOn:
				leave()
			case <-ctx.Done():
			}
		}()
	}
	var sent atomic.Bool // it has a connection
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			if sent.CompareAndSwap(false, true) { // the transport takes another one where a GOAWAY came first
				c.H.Add(w.Event(Send))
			}
		},
	})
	body, pipe := io.Pipe()
	up := &upload{conn: pipe, w: w, stop: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(up.over)
		up.body(nil)
		pipe.Close()
	}()
	func() {
		resp, err := c.Streams.RoundTrip(w.request(ctx, c.Addr, body))
		if err != nil {
			r.Err = fmt.Errorf("reading the answer: %w", err)
			return
		}
		defer resp.Body.Close()
		r.Status, r.Header = resp.StatusCode, resp.Header
		c.follow(w, resp, &r)
	}()
	close(up.stop)
	body.Close()
	<-up.over
	if !sent.Load() {
		return Reaction{Err: fmt.Errorf("%w: %w", ErrNotSent, r.Err)}
	}
	c.tell(w, r, left.Load())
	return r
}

// request is head for net/http.
func (w Write) request(ctx context.Context, addr string, body io.Reader) *http.Request {
	if w.Body == 0 {
		body = nil
	}
	req, err := http.NewRequestWithContext(ctx, w.method(), "http://"+addr+"/things/"+w.Key, body)
	if err != nil { // an address and a key of ours
		panic(err)
	}
	req.Host, req.ContentLength = "fence.test", int64(w.Body)
	req.Header.Set(IDHeader, strconv.FormatUint(uint64(w.ID), 10))
	req.Header.Set(PlanHeader, w.Plan.encode())
	if !w.Bare {
		req.Header.Set(tokenHeader, strconv.FormatUint(w.Token, 10))
	}
	if w.Expect {
		req.Header.Set("Expect", "100-continue")
	}
	return req
}
