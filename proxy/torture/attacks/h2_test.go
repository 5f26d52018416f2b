package attacks

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2conn is an HTTP/2 client that says what it likes.
type h2conn struct {
	net.Conn
	fr    *http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
	next  uint32
}

// dialH2 connects with prior knowledge, or over TLS where secure is set.
func dialH2(addr string, secure bool, settings ...http2.Setting) (*h2conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if secure {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http2.NextProtoTLS}}) // a certificate of this test's
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	h := &h2conn{Conn: c, fr: http2.NewFramer(c, c), next: 1}
	h.fr.AllowIllegalWrites = true
	h.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.enc = hpack.NewEncoder(&h.block)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return nil, err
	}
	return h, h.fr.WriteSettings(settings...)
}

// pairs is a head as name, value, name, value: it may hold the same name twice,
// and anything in a name or value.
func (h *h2conn) encode(pairs ...string) []byte {
	h.block.Reset()
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = h.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return h.block.Bytes()
}

// open begins a stream with a head.
func (h *h2conn) open(end bool, pairs ...string) (id uint32, err error) {
	id = h.next
	h.next += 2
	return id, h.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: h.encode(pairs...), EndStream: end, EndHeaders: true})
}

// over reads until the stream has ended, and answers what the server wants to
// have answered. Its status is "" where it was reset or the connection ended.
func (h *h2conn) over(id uint32) (status string) {
	for {
		f, err := h.fr.ReadFrame()
		if err != nil {
			if _, ok := err.(http2.StreamError); ok {
				continue
			}
			return ""
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = h.fr.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = h.fr.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID == id {
				status = f.PseudoValue("status")
				if f.StreamEnded() {
					return status
				}
			}
		case *http2.DataFrame:
			if f.StreamID == id && f.StreamEnded() {
				return status
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return status
			}
		case *http2.GoAwayFrame:
			if f.LastStreamID < id {
				return status
			}
		}
	}
}

// write is the head of a fenced write.
func writeHead(name, token string) []string {
	return []string{":method", "PUT", ":scheme", "http", ":authority", "a", ":path", "/things/" + name, "x-fencing-token", token}
}
