package proxy

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2conn is a client's HTTP/2 connection, spoken to frame by frame.
type h2conn struct {
	*rig
	net.Conn
	fr     *http2.Framer
	enc    *hpack.Encoder
	block  bytes.Buffer // of enc
	last   uint32       // stream
	window uint32       // of a stream, as the proxy announced it
	goaway bool
	ponged bool
	stream map[uint32]*h2reply
}

// h2reply is what came on one stream.
type h2reply struct {
	status   string
	header   http.Header
	body     string
	trailer  http.Header
	informed []string // 1xx
	ended    bool     // by END_STREAM
	reset    string   // the code of RST_STREAM
}

// dialHTTP2 connects with prior knowledge. settings are the client's.
func (r *rig) dialHTTP2(settings ...http2.Setting) *h2conn {
	r.Helper()
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.Fatal(err)
	}
	return r.speakHTTP2(nc, settings...)
}

func (r *rig) speakHTTP2(nc net.Conn, settings ...http2.Setting) *h2conn {
	r.Helper()
	r.Cleanup(func() { _ = nc.Close() })
	c := &h2conn{rig: r, Conn: nc, fr: http2.NewFramer(nc, nc), stream: map[uint32]*h2reply{}}
	c.fr.AllowIllegalWrites = true
	c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.enc = hpack.NewEncoder(&c.block)
	_, err := io.WriteString(nc, http2.ClientPreface)
	c.sent(err)
	c.sent(c.fr.WriteSettings(settings...))
	for c.window == 0 {
		c.frame()
	}
	return c
}

func (c *h2conn) sent(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// open sends a request head: fields are names and values in turn. One of the
// four pseudo-headers takes the place of the usual one, "" leaves it out; all
// others are sent as they stand.
func (c *h2conn) open(end bool, fields ...string) uint32 {
	c.Helper()
	pseudo := []string{":method", "PUT", ":scheme", "http", ":authority", "a", ":path", "/accounts/42"}
	var rest []string
	for i := 0; i < len(fields); i += 2 {
		at := -1
		for j := 0; j < len(pseudo); j += 2 {
			if pseudo[j] == fields[i] {
				at = j
			}
		}
		if at >= 0 {
			pseudo[at+1] = fields[i+1]
		} else {
			rest = append(rest, fields[i], fields[i+1])
		}
	}
	c.block.Reset()
	for i := 0; i < len(pseudo); i += 2 {
		if pseudo[i+1] != "" {
			c.sent(c.enc.WriteField(hpack.HeaderField{Name: pseudo[i], Value: pseudo[i+1]}))
		}
	}
	for i := 0; i < len(rest); i += 2 {
		c.sent(c.enc.WriteField(hpack.HeaderField{Name: rest[i], Value: rest[i+1]}))
	}
	c.last = max(c.last+2, 1)
	if c.last%2 == 0 {
		c.last--
	}
	c.stream[c.last] = &h2reply{}
	block := c.block.Bytes()
	first := block[:min(len(block), 16<<10)]
	block = block[len(first):]
	c.sent(c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: c.last, BlockFragment: first, EndStream: end, EndHeaders: len(block) == 0}))
	for len(block) > 0 {
		next := block[:min(len(block), 16<<10)]
		block = block[len(next):]
		c.sent(c.fr.WriteContinuation(c.last, len(block) == 0, next))
	}
	return c.last
}

// put sends a PUT with a token and a body that is not ended.
func (c *h2conn) put(token, body string) uint32 {
	c.Helper()
	id := c.open(false, "x-fencing-token", token)
	c.data(id, body, false)
	return id
}

func (c *h2conn) data(id uint32, body string, end bool) {
	c.Helper()
	for len(body) > 16384 {
		c.sent(c.fr.WriteData(id, false, []byte(body[:16384])))
		body = body[16384:]
	}
	c.sent(c.fr.WriteData(id, end, []byte(body)))
}

// over reads until the stream is ended by either side.
func (c *h2conn) over(id uint32) *h2reply {
	c.Helper()
	for s := c.stream[id]; ; {
		if s.ended || s.reset != "" {
			return s
		}
		c.frame()
	}
}

// reset reads until the stream is reset, also behind its end.
func (c *h2conn) reset(id uint32) string {
	c.Helper()
	for s := c.stream[id]; s.reset == ""; {
		c.frame()
	}
	return c.stream[id].reset
}

// frame reads one frame.
func (c *h2conn) frame() {
	c.Helper()
	_ = c.SetReadDeadline(time.Now().Add(soon))
	f, err := c.fr.ReadFrame()
	if err != nil {
		c.Fatalf("no frame: %v", err)
	}
	s := c.stream[f.Header().StreamID]
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			c.window, _ = f.Value(http2.SettingInitialWindowSize)
			c.sent(c.fr.WriteSettingsAck())
		}
	case *http2.PingFrame:
		if c.ponged = f.IsAck(); !c.ponged {
			c.sent(c.fr.WritePing(true, f.Data))
		}
	case *http2.GoAwayFrame:
		c.goaway = true
	case *http2.RSTStreamFrame:
		s.reset = f.ErrCode.String()
	case *http2.DataFrame:
		s.body += string(f.Data())
		s.ended = f.StreamEnded()
	case *http2.MetaHeadersFrame:
		h := http.Header{}
		for _, field := range f.RegularFields() {
			h.Add(field.Name, field.Value)
		}
		switch status := f.PseudoValue("status"); {
		case status == "":
			s.trailer = h
		case strings.HasPrefix(status, "1"):
			s.informed = append(s.informed, status)
		default:
			s.status, s.header = status, h
		}
		s.ended = f.StreamEnded()
	}
}

// alive looks whether the connection is of use for further streams.
func (c *h2conn) alive() {
	c.Helper()
	c.ponged = false
	c.sent(c.fr.WritePing(false, [8]byte{42}))
	for !c.ponged {
		c.frame()
	}
	if c.goaway {
		c.Error("GOAWAY")
	}
}

// clientHTTP2 is Go's own client, with prior knowledge.
func (r *rig) clientHTTP2() *http.Client {
	t := &http.Transport{Protocols: &http.Protocols{}}
	t.Protocols.SetUnencryptedHTTP2(true)
	r.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

func (r *rig) request(method, path, token string, body io.Reader) *http.Request {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, "http://"+r.addr+path, body)
	if err != nil {
		r.Fatal(err)
	}
	if token != "" {
		req.Header.Set("X-Fencing-Token", token)
	}
	return req
}

// trailer ends the stream's request with trailers.
func (c *h2conn) trailer(id uint32, fields ...string) {
	c.Helper()
	c.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		c.sent(c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	c.sent(c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndStream: true, EndHeaders: true}))
}

// clientTLS speaks the one protocol over TLS.
func (r *rig) clientTLS(proto string) *http.Client {
	t := &http.Transport{Protocols: &http.Protocols{}, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Protocols.SetHTTP1(proto == "http/1.1")
	t.Protocols.SetHTTP2(proto == "h2")
	r.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// speak sends a request over TLS, and tells its status and what the fence said.
func (r *rig) speak(client *http.Client, method, token string) <-chan string {
	req := r.request(method, "/accounts/42", token, nil)
	req.URL.Scheme = "https"
	said := make(chan string, 1)
	go func() {
		res, err := client.Do(req)
		if err != nil {
			said <- err.Error()
			return
		}
		_ = res.Body.Close()
		said <- fmt.Sprint(res.StatusCode, " ", res.Header.Get("Fencing-Result"))
	}()
	return said
}
