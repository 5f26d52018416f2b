package upstream

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// HTTP/2 to the upstream, on a client of our own over http2.Framer and hpack.
//
// The standard library's (http.ClientConn, http2.Transport) does not retry
// below its Transport, but it does not tell enough either: which error promises
// that nothing was processed is private to it, MaySend could only be asked
// before the head waits for a connection's turn, an answer above 299 ends the
// upload of a request that would have settled, 1xx answers are given out on the
// goroutine that reads for every stream, and a server may give all of a
// connection's window to one upload that it does not read.
//
// What is proved here, beside what the package comment says:
//
//	not sent   REFUSED_STREAM, or a GOAWAY whose last stream is below ours,
//	           before anything of an answer came (RFC 9113, 6.8 and 8.7)
//	settled    END_STREAM came, with as many bytes as Content-Length said, and
//	           our END_STREAM was taken by the kernel, or the status refuses
//	unsettled  everything else: every other reset, the end of the connection,
//	           silence, and a whole 2xx answer after which the upstream wants
//	           no more of the request (ReasonEarlyEnd; a gRPC server may end a
//	           call like that): nobody knows how much of it was applied
//
// Streams share connections, but never wait for each other: a request goes on a
// connection that has room for its stream and for the bytes that leave with its
// head, and otherwise on a new one. A longer upload has the window of a
// connection for itself, since an upstream that does not read one body may stop
// the window of all. Answers that are not read cost the stream's window, not
// the connection's. Nor does one client end the write of another by what it
// does to its own: see company.

// h2pool holds the connections to an upstream that speaks HTTP/2.
type h2pool struct {
	u      *Upstream
	scheme string        // what :scheme says
	only   bool          // HTTP/2 without asking; otherwise it is what ALPN chose
	setup  time.Duration // bounds the exchange of the first SETTINGS
	// stuck and passOver are h2StuckWrite and h2PassOver, but in tests on real
	// sockets, which count connections on a machine that may stand still for longer.
	stuck, passOver time.Duration
	// dialHTTP1 offers HTTP/1.1 alone; nil with only.
	dialHTTP1 func(ctx context.Context) (net.Conn, error)

	mu     sync.Mutex // taken before a connection's own
	conns  []*h2conn  // oldest first
	closed bool
}

// h2need is what a request takes of the connection that it goes on.
type h2need struct {
	window  int64 // bytes of the body that leave with the head
	upload  bool  // what follows them
	company company
	fresh   bool // the connection is made for it: there is none to go on besides
}

// send is Send where HTTP/2 is spoken, or may be.
func (p *h2pool) send(ctx context.Context, r *Request) (*Answer, error) {
	if r.WebSocket {
		return p.sendWebSocket(ctx, r)
	}
	need := needOf(r)
	if c := p.get(need); c != nil {
		a, unused, err := c.exchange(ctx, r, need)
		if !unused {
			return a, err
		}
		// Nothing of r has been used up or sent, so this is still one attempt.
		// A fresh connection has no such excuse.
	}
	if !p.only {
		if nc := p.u.pool.get(); nc != nil {
			a, err := p.u.overHTTP1(ctx, r, nc)
			if !errors.Is(err, errUnused) {
				return a, err
			}
		}
	}
	nc, err := p.u.dial(ctx)
	if err != nil {
		return nil, p.u.notSent(r, dialReason(ctx, err), err)
	}
	if !p.only && !choseH2(nc) {
		return p.u.overHTTP1(ctx, r, nc)
	}
	c, err := p.open(ctx, nc, &need)
	if err != nil {
		nc.Close()
		return nil, p.u.notSent(r, setupReason(ctx, err), err)
	}
	a, _, err := c.exchange(ctx, r, need)
	return a, err
}

// sendWebSocket opens a websocket, for which there is HTTP/1.1: a connection that
// offers nothing else is made for it.
func (p *h2pool) sendWebSocket(ctx context.Context, r *Request) (*Answer, error) {
	if p.only {
		return nil, p.u.notSent(r, ReasonBadRequest, errors.New("there are no websockets over h2c; use http:// or https:// in upstream.url"))
	}
	nc, err := p.dialHTTP1(ctx)
	if err != nil {
		return nil, p.u.notSent(r, dialReason(ctx, err), err)
	}
	return p.u.overHTTP1(ctx, r, nc)
}

// overHTTP1 is one attempt on a connection that does not speak HTTP/2.
func (u *Upstream) overHTTP1(ctx context.Context, r *Request, nc net.Conn) (*Answer, error) {
	head, err := u.appendHead(nil, r)
	if err != nil {
		nc.Close()
		return nil, u.notSent(r, ReasonBadRequest, err)
	}
	first, whole := join(head, r)
	return u.attempt(ctx, r, nc, first, whole)
}

// choseH2 reports whether the upstream chose HTTP/2 in its TLS handshake (ALPN).
func choseH2(nc net.Conn) bool {
	s, ok := nc.(*secure)
	return ok && s.tls.ConnectionState().NegotiatedProtocol == http2.NextProtoTLS
}

func needOf(r *Request) h2need {
	need := h2need{company: companyOf(r)}
	if r.Body == nil {
		return need
	}
	b, ok := r.Body.(*bytes.Reader)
	if !ok || r.Trailer != nil || b.Len() > maxJoined {
		need.upload = true
	} else {
		need.window = int64(b.Len())
	}
	return need
}

// joined is the body that leaves together with the head. It is not used up: it
// may be needed again.
func joined(r *Request, n int64) []byte {
	if n == 0 {
		return nil
	}
	b := r.Body.(*bytes.Reader)
	body := make([]byte, n)
	b.ReadAt(body, b.Size()-n)
	return body
}

// get returns a connection on which need has been taken; nil where there is
// none with room.
func (p *h2pool) get(need h2need) *h2conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if c.take(need) {
			return c
		}
	}
	return nil
}

// add makes c known to others.
func (p *h2pool) add(c *h2conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || c.company == once || p.count(c.company) >= maxIdle {
		c.retire() // after the request that it was made for
		return
	}
	p.conns = append(p.conns, c)
}

// count is how many connections are for one company: what clients open of theirs
// takes no place of the others'. mu is held.
func (p *h2pool) count(of company) (n int) {
	for _, c := range p.conns {
		if c.company == of {
			n++
		}
	}
	return n
}

func (p *h2pool) remove(c *h2conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.conns {
		if other == c {
			p.conns = append(p.conns[:i], p.conns[i+1:]...)
			return
		}
	}
}

func (p *h2pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.conns {
		c.retire()
	}
}

// setupReason names why a connection was made but is of no use.
func setupReason(ctx context.Context, err error) Reason {
	switch {
	case ctx.Err() != nil:
		return ReasonCanceled
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ReasonConnectTimeout
	case classify(err, false) == ReasonTLS: // our certificate was refused behind the handshake
		return ReasonTLS
	}
	return ReasonUnreachable
}
