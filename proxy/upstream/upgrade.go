package upstream

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Tunnel is what a 101 opened: the upstream's connection, on which no HTTP is
// spoken any more. One goroutine reads and one writes, and nothing bounds how
// long either takes: End and Answer.Close end both. The answer MUST be closed
// after both.
type Tunnel struct{ x *exchange }

var (
	errSwitching = errors.New("bad answer: 101 Switching Protocols to a request that did not ask for it")
	// errSwitched is what reading the body of a 101 gives.
	errSwitched = errors.New("the answer is a 101: what follows it is its Tunnel's")
)

// switched makes the answer of a 101. It is never whole, so its outcome is
// Unsettled however the tunnel ends (see the package comment).
func (x *exchange) switched(h answerHead) (*Answer, error) {
	if err := x.r.checkSwitch(h); err != nil {
		return nil, x.broken(err, true)
	}
	<-x.done // a writer of the head may not have told yet that it is through
	x.mu.Lock()
	x.headIn, x.status = true, h.status
	sent := x.sent
	x.c.SetDeadline(time.Time{}) // those of the exchange
	x.mu.Unlock()
	if !sent {
		return nil, x.broken(badAnswer("101 to a handshake that was not wholly sent"), true)
	}
	dropHop(h.header)
	h.header.Del("Content-Length") // it means nothing here; the next reader might think otherwise
	return &Answer{Status: h.status, Header: h.header, Tunnel: &Tunnel{x}, x: x, end: errSwitched}, nil
}

// checkSwitch believes a 101 only of a server that has understood the
// handshake. One that goes on to speak HTTP would take what the client sends
// for requests, which no fence has seen.
func (r *Request) checkSwitch(h answerHead) error {
	upgrade, accept := h.header["Upgrade"], h.header["Sec-Websocket-Accept"]
	switch {
	case !r.WebSocket:
		return errSwitching
	case h.minor == 0:
		return badAnswer("101 in HTTP/1.0")
	case len(upgrade) != 1 || !strings.EqualFold(upgrade[0], "websocket"):
		return badAnswer(fmt.Sprintf("101 with Upgrade %q; asked for was websocket", upgrade))
	case !httpguts.HeaderValuesContainsToken(h.header["Connection"], "Upgrade"):
		return badAnswer("101 whose Connection does not name Upgrade")
	case len(accept) != 1 || accept[0] != acceptOf(r.Header.Get("Sec-Websocket-Key")):
		return badAnswer(fmt.Sprintf("101 with Sec-WebSocket-Accept %q, which does not fit the handshake's Sec-WebSocket-Key", accept))
	}
	return nil
}

// acceptOf is the Sec-WebSocket-Accept that fits a Sec-WebSocket-Key (RFC
// 6455, section 4.2.2).
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Read reads what the upstream sends, beginning with what came together with
// the 101. io.EOF is its FIN.
func (t *Tunnel) Read(p []byte) (int, error) { return t.x.c.br.Read(p) }

// Write sends p: through the connection and not beneath its TLS, as a request
// is sent.
func (t *Tunnel) Write(p []byte) (int, error) { return t.x.c.Conn.Write(p) }

// CloseWrite passes the client's end on. It is called by the goroutine that
// writes, after its last Write.
func (t *Tunnel) CloseWrite() error {
	if c, ok := t.x.c.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

// End closes the connection, for a reason that stands in the answer's outcome;
// the first reason counts. Any goroutine may call it. Once Write has returned,
// nothing leaves any more.
func (t *Tunnel) End(reason Reason, cause error) {
	if reason == ReasonEnded && arrives(t.x.c.Conn) {
		deliverAtEnd(t.x.c.Conn) // it sees an end, and no reset
	}
	t.x.lose(reason, cause)
}
