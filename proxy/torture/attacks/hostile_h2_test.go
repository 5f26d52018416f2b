package attacks

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2upstream is an HTTP/2 upstream that is as hostile as it is told to be.
type h2upstream struct {
	addr  string
	mode  atomic.Pointer[h2mode] // nil: a good one
	conns atomic.Int64           // so far
	open  atomic.Int64           // of these
}

// h2mode is one kind of hostility: what the upstream says first, and what on
// each request.
type h2mode struct {
	name     string
	first    []byte // in the place of its SETTINGS; nil for plain ones
	silent   bool   // it says nothing at all
	answer   func(u *h2peer, id uint32)
	unread   bool // behind the first request it reads no more
	settled  bool // its answer is whole, and may be passed on
	overdone bool // what comes behind its end breaks it, where that is seen before the proxy knows that all of the request was taken
	attempts int  // how many connections a request may cost; 0 stands for one
}

// h2peer is one connection to the proxy.
type h2peer struct {
	net.Conn
	fr    *http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
}

func (p *h2peer) head(id uint32, end bool, pairs ...string) {
	p.block.Reset()
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = p.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	_ = p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block.Bytes(), EndStream: end, EndHeaders: true})
}

// pour writes the same bytes until they are not taken any more.
func (p *h2peer) pour(b []byte) {
	b = bytes.Repeat(b, max(1, 16<<10/len(b)))
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		if _, err := p.Write(b); err != nil {
			return
		}
	}
}

func (u *h2upstream) serve(c net.Conn) {
	defer c.Close()
	u.conns.Add(1)
	u.open.Add(1)
	defer u.open.Add(-1)
	m := u.mode.Load()
	p := &h2peer{Conn: c, fr: http2.NewFramer(c, c)}
	p.enc = hpack.NewEncoder(&p.block)
	p.fr.AllowIllegalWrites = true
	p.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	switch {
	case m != nil && m.silent:
		_, _ = io.Copy(io.Discard, c)
		return
	case m != nil && m.first != nil:
		_, _ = c.Write(m.first)
	default:
		_ = p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
	}
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = p.fr.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			if m = u.mode.Load(); m == nil {
				p.head(f.StreamID, true, ":status", "200")
				continue
			}
			m.answer(p, f.StreamID)
			if m.unread {
				time.Sleep(3 * time.Second)
				return
			}
		}
	}
}

// hostilities are known of servers, or are the mirror of what is known of
// clients.
func hostilities() []h2mode {
	ok := func(p *h2peer, id uint32) { p.head(id, true, ":status", "200") }
	settings := func(s ...byte) []byte { return raw(http2.FrameSettings, 0, 0, s) }
	nothing := func(*h2peer, uint32) {}
	field := append([]byte{0x00, 0x04, 'x', '-', 'a', 'b', 0x7f, 0x81, 0x06}, bytes.Repeat([]byte{'y'}, 127+1+6*128)...)
	with := func(pairs ...string) func(p *h2peer, id uint32) {
		return func(p *h2peer, id uint32) {
			p.head(id, false, append([]string{":status", "200"}, pairs...)...)
			_ = p.fr.WriteData(id, true, []byte("ok"))
		}
	}
	return []h2mode{
		{name: "no SETTINGS", silent: true},
		{name: "another protocol", first: []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), answer: ok},
		{name: "no streams at all", first: settings(0, 3, 0, 0, 0, 0), answer: ok},
		{name: "no windows at all", first: settings(0, 4, 0, 0, 0, 0), answer: nothing},
		{name: "a window of 2^32-1", first: settings(0, 4, 0xff, 0xff, 0xff, 0xff), answer: ok},
		{name: "frames of one byte", first: settings(0, 5, 0, 0, 0, 1), answer: ok},
		{name: "CONTINUATION without end", answer: func(p *h2peer, id uint32) {
			_ = p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x88}})
			p.pour(raw(http2.FrameContinuation, 0, id, bytes.Repeat(field, 16000/len(field))))
		}},
		{name: "empty CONTINUATION", answer: func(p *h2peer, id uint32) {
			_ = p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x88}})
			p.pour(raw(http2.FrameContinuation, 0, id, nil))
		}},
		{name: "an HPACK bomb", answer: func(p *h2peer, id uint32) {
			p.block.Reset()
			_ = p.enc.WriteField(hpack.HeaderField{Name: ":status", Value: "103"})
			_ = p.enc.WriteField(hpack.HeaderField{Name: "x-bomb", Value: strings.Repeat("y", 3000)})
			p.block.Write(bytes.Repeat([]byte{0x80 | 62}, 12000))
			for range 100 {
				_ = p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block.Bytes(), EndHeaders: true})
			}
		}},
		{name: "1xx without end", answer: func(p *h2peer, id uint32) {
			for range 20_000 {
				p.head(id, false, ":status", "103", "link", strings.Repeat("x", 500))
			}
		}},
		{name: "PING without end", answer: func(p *h2peer, _ uint32) { p.pour(raw(http2.FramePing, 0, 0, make([]byte, 8))) }, unread: true},
		{name: "SETTINGS without end", answer: func(p *h2peer, _ uint32) { p.pour(settings(0, 4, 0, 0, 0xff, 0xff)) }, unread: true},
		{name: "SETTINGS of many entries", answer: func(p *h2peer, _ uint32) { p.pour(settings(bytes.Repeat([]byte{0, 1, 0, 0, 0x10, 0}, 2700)...)) }, unread: true},
		{name: "empty DATA without end", answer: func(p *h2peer, id uint32) {
			p.head(id, false, ":status", "200")
			p.pour(raw(http2.FrameData, 0, id, nil))
		}},
		{name: "DATA beyond the window", answer: func(p *h2peer, id uint32) {
			p.head(id, false, ":status", "200")
			p.pour(raw(http2.FrameData, 0, id, make([]byte, 16<<10)))
		}},
		{name: "DATA for streams that are over", answer: func(p *h2peer, id uint32) {
			ok(p, id)
			for range 1000 {
				_ = p.fr.WriteData(id, false, make([]byte, 16<<10))
			}
		}, settled: true, overdone: true},
		{name: "DATA before the head", answer: func(p *h2peer, id uint32) { _ = p.fr.WriteData(id, true, []byte("x")) }},
		{name: "a frame for a stream that was never begun", answer: func(p *h2peer, id uint32) { _ = p.fr.WriteData(id+100, true, []byte("x")) }},
		{name: "frames that nobody knows", answer: func(p *h2peer, id uint32) { p.pour(raw(0xbe, 0, id, make([]byte, 1000))) }},
		{name: "windows without end", answer: func(p *h2peer, _ uint32) { p.pour(raw(http2.FrameWindowUpdate, 0, 0, []byte{0x7f, 0, 0, 0})) }},
		{name: "GOAWAY, again and again", answer: func(p *h2peer, _ uint32) {
			for range 1000 {
				_ = p.fr.WriteGoAway(0, http2.ErrCodeNo, nil)
			}
		}, attempts: 2},
		{name: "GOAWAY with much to say", answer: func(p *h2peer, id uint32) { _ = p.fr.WriteGoAway(id, http2.ErrCodeNo, make([]byte, 16000)) }},
		{name: "streams refused", answer: func(p *h2peer, id uint32) { _ = p.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream) }, attempts: 2},
		{name: "streams reset", answer: func(p *h2peer, id uint32) { _ = p.fr.WriteRSTStream(id, http2.ErrCodeCancel) }},
		{name: "a push", answer: func(p *h2peer, id uint32) {
			_ = p.fr.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, BlockFragment: []byte{0x82}, EndHeaders: true})
		}},
		{name: "a line end in a value", answer: with("x", "y\r\nX-Evil: 1")},
		{name: "a line end in a name", answer: with("x: y\r\nx-evil", "1")},
		{name: "a status that is a line", answer: func(p *h2peer, id uint32) { p.head(id, true, ":status", "200 OK\r\nX-Evil: 1") }},
		{name: "two statuses", answer: func(p *h2peer, id uint32) { p.head(id, true, ":status", "200", ":status", "500") }},
		{name: "101", answer: func(p *h2peer, id uint32) { p.head(id, false, ":status", "101") }},
		{name: "transfer-encoding", answer: with("transfer-encoding", "chunked"), settled: true},
		{name: "a length above the body", answer: with("content-length", "200")},
		{name: "a length below the body", answer: with("content-length", "1")},
		{name: "two lengths", answer: with("content-length", "2", "content-length", "200")},
		{name: "capitals", answer: with("X-Evil", "1")},
		{name: "nothing", answer: nothing},
	}
}

// An HTTP/2 upstream that is hostile: each client gets an answer, in time, which
// is never a whole one unless the upstream's was; one request costs one
// connection, or two where the first promised that it did nothing; memory stays
// where it is; and once the upstream is good again, all is good.
func TestHostileHTTP2Upstream(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u := &h2upstream{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(c)
		}
	}()
	p := newProxy(t, "h2c://"+u.addr, plain+`
upstream: {url: UPSTREAM, settle: 1ms, response_timeout: 2s, connect_timeout: 2s}
`)
	var m memory
	m.look(p)
	m.before = m.most
	for i, mode := range hostilities() {
		if mode.first != nil || mode.silent { // it wants a connection of its own
			p.eventually("no idle connection is kept", func() bool { return u.open.Load() == 0 })
		}
		u.mode.Store(&mode)
		before := m.now()
		var status int
		var err error
		var conns int64
		for n := 0; n < 5 && (n == 0 || mode.settled && status == http.StatusGatewayTimeout); n++ { // the machine was too busy for response_timeout
			conns = u.conns.Load()
			began := time.Now()
			status, err = p.write(fmt.Sprintf("/things/h%d-%d", i, n))
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s: the client waited for %v", mode.name, took)
			}
		}
		if whole := err == nil && status == http.StatusOK; whole != mode.settled && !(mode.overdone && (err != nil || status == http.StatusBadGateway)) {
			t.Errorf("%s: %d %v", mode.name, status, err)
		}
		if n := u.conns.Load() - conns; n > int64(max(1, mode.attempts)) {
			t.Errorf("%s: one request cost %d connections", mode.name, n)
		}
		m.look(p)
		t.Logf("%s: %d %v, memory + %.0f MB", mode.name, status, err, (m.now()-before)/megabyte)
		u.mode.Store(nil)
		status, err = p.write(fmt.Sprintf("/things/g%d", i))
		for n := 0; n < 5 && status == http.StatusGatewayTimeout; n++ { // as above
			status, err = p.write(fmt.Sprintf("/things/g%d-%d", i, n))
		}
		if status != http.StatusOK || err != nil {
			t.Errorf("behind %q a good upstream's answer is %d %v", mode.name, status, err)
		}
	}
	if grown := m.now() - m.before; grown > 100*megabyte {
		t.Errorf("memory grew by %.0f MB", grown/megabyte)
	}
	p.quiet()
}

// write is a fenced write; the error says that its answer broke off. No answer
// may hold what an upstream hid in its own.
func (p *proxy) write(path string) (int, error) {
	req, err := http.NewRequest(http.MethodPut, "http://"+p.Addr+path, strings.NewReader("x"))
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Fencing-Token", "1")
	res, err := web.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.Header.Get("X-Evil") != "" {
		p.t.Errorf("%s gets what the upstream hid: %v", path, res.Header)
	}
	body, err := io.ReadAll(res.Body)
	if strings.Contains(string(body), "127.0.0.1") {
		p.t.Errorf("%s is told where the upstream is: %s", path, body)
	}
	return res.StatusCode, err
}
