package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/upstream"
)

// tunnelBuffer is small because two of them last as long as their tunnel,
// which mostly has nothing to say.
const tunnelBuffer = 4 << 10

var (
	errOvertaken = errors.New("a higher token is on the disk")
	errWaitedFor = errors.New("a write that a reload has fenced waits for those of before")
	errGrantLost = errors.New("the session with the token store is over")
	errHalfOpen  = errors.New("one side ended the websocket, and the other did not in response_timeout")
)

// tunnel is a websocket between a client and the upstream. It is a write that
// goes on: its ticket stays in flight until nothing can pass any more. Its
// bytes are not looked at, and nothing but TCP's keep-alive asks whether both
// sides are still there.
type tunnel struct {
	client   net.Conn
	ahead    []byte // what the client sent before it had the 101
	head     []byte // the 101
	upstream *upstream.Tunnel
	maySend  func() bool // nil: always

	up, down chan struct{} // closed when nothing passes that way any more
	broken   error         // why it could not be read on from the upstream; set before down is closed
}

// tunnel passes bytes both ways until both sides have ended, or the fence ends
// it, and settles the write behind it.
func (x *exchange) tunnel(a *upstream.Answer) {
	x.relayHead(a)
	x.h.Metrics.answered(x)
	if x.client.gone { // a write to it may still be under way
		x.breakOff(a.Outcome(), gate.ErrLeft)
	}
	t, err := x.hijack(a)
	if err != nil {
		x.breakOff(a.Outcome(), err)
	}
	go t.toUpstream()
	go t.toClient()
	reason, cause := x.attend(t)
	t.upstream.End(reason, cause)
	x.leaveClient(t)
	<-t.up // a byte that left after the settle time had begun would be nobody's
	<-t.down
	x.settle(string(a.Outcome().Reason))
	x.cause = cause
}

// hijack takes the client's connection from net/http, which forgets it:
// Handler.tunnels counts it instead.
func (x *exchange) hijack(a *upstream.Answer) (*tunnel, error) {
	// Before Hijack, so that http.Server.Shutdown cannot return in between.
	x.h.tunnels.Add(1)
	x.hijacked = true
	client, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return nil, err
	}
	ahead, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	head := bytes.NewBufferString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n")
	h := x.w.Header()
	h.Del("Connection") // ours was meant for answers after which HTTP goes on
	_ = h.Write(head)
	head.WriteString("\r\n")
	t := &tunnel{client: client, ahead: ahead, head: head.Bytes(), upstream: a.Tunnel, up: make(chan struct{}), down: make(chan struct{})}
	if x.holds {
		t.maySend = x.ticket.MaySend
	}
	return t, nil
}

// attend returns when the tunnel is to end, and why.
func (x *exchange) attend(t *tunnel) (upstream.Reason, error) {
	var overtaken, lost <-chan struct{}
	if x.holds {
		overtaken, lost = x.ticket.Overtaken(), x.ticket.Lost()
	}
	hurried := x.book.hurried.Done()
	var halfOpen <-chan time.Time
	up, down := t.up, t.down
	for up != nil || down != nil {
		select {
		case <-overtaken:
			return upstream.ReasonCut, errOvertaken
		case <-lost:
			return upstream.ReasonCut, errGrantLost
		case <-hurried:
			return upstream.ReasonCut, errWaitedFor
		case <-x.h.Gate.Stopped():
			return upstream.ReasonStopped, gate.ErrStopping
		case <-down:
			if t.broken != nil {
				return upstream.ReasonReset, t.broken
			}
			down, halfOpen = nil, time.After(x.rule.ResponseTimeout)
		case <-up:
			up, halfOpen = nil, time.After(x.rule.ResponseTimeout)
		case <-halfOpen:
			return upstream.ReasonTimeout, errHalfOpen
		}
	}
	return upstream.ReasonEnded, nil
}

// toUpstream passes on what the client sends, and its end. A client that broke
// off has ended, too.
func (t *tunnel) toUpstream() {
	defer close(t.up)
	defer func() { _ = t.upstream.CloseWrite() }()
	_ = pass(leaving{t}, io.MultiReader(bytes.NewReader(t.ahead), t.client))
}

// leaving asks for the leave to send before each piece (R5): a process that was
// frozen finds messages of before at the client's side when it wakes up.
type leaving struct{ *tunnel }

func (l leaving) Write(p []byte) (int, error) {
	if l.maySend != nil && !l.maySend() {
		l.upstream.End(upstream.ReasonCut, errGrantLost)
		return 0, errGrantLost
	}
	return l.upstream.Write(p)
}

// toClient passes on what the upstream sends, and its end.
func (t *tunnel) toClient() {
	defer close(t.down)
	defer t.endClient()
	if err := pass(t.client, io.MultiReader(bytes.NewReader(t.head), t.upstream)); err != nil {
		t.broken = fmt.Errorf("the upstream broke the websocket off: %w", err)
	}
}

// endClient passes the upstream's end on.
func (t *tunnel) endClient() {
	if c, ok := t.client.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}

// leaveClient closes the client's connection. Over TLS that is said first, for up
// to five seconds, to a client that takes nothing: a raise would wait for it.
func (x *exchange) leaveClient(t *tunnel) {
	if socket := socketOf(x.r); socket != nil {
		defer time.AfterFunc(grace, func() { _ = socket.Close() }).Stop()
	}
	_ = t.client.Close()
}

// pass copies until from ends, and returns why it could not be read on; nil
// for an end, and where to takes no more.
func pass(to io.Writer, from io.Reader) error {
	buf := make([]byte, tunnelBuffer)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// WaitTunnels waits until the websockets are over, which end as soon as the
// gate stops. http.Server.Shutdown does not know them, and is to return
// before: then no more of them open.
func (h *Handler) WaitTunnels() { h.tunnels.Wait() }
