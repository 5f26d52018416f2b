package attacks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// flood is what a hostile client does on one connection, until it ends, or until
// over says so. from is a number that is its own.
type flood struct {
	name     string
	settings []http2.Setting
	run      func(c *h2conn, from int, over func() bool)
}

// read is the head of a request that no fence touches.
func readHead(path string) []string {
	return []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", path}
}

// raw is a frame as it goes over the wire, whatever it holds.
func raw(kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) []byte {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), byte(kind), byte(flags)}
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// pour writes the same bytes as fast as they are taken.
func pour(c *h2conn, b []byte, over func() bool) {
	b = bytes.Repeat(b, max(1, 16<<10/len(b)))
	for !over() {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// drain reads whatever comes, so that the server never waits for its client.
func drain(c *h2conn) { _, _ = io.Copy(io.Discard, c.Conn) }

// floods is what is known of them. What a server has to say is read where that
// makes the flood worse, and is not where not reading does.
var floods = []flood{
	{"rapid reset of reads (CVE-2023-44487)", nil, func(c *h2conn, _ int, over func() bool) {
		go drain(c)
		for !over() {
			id, err := c.open(true, readHead("/open/1")...)
			if err != nil || c.fr.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				return
			}
		}
	}},
	{"rapid reset of fenced writes", nil, func(c *h2conn, from int, over func() bool) {
		go drain(c)
		for n := 1; !over(); n++ {
			id, err := c.open(true, writeHead(fmt.Sprintf("reset%d", from), fmt.Sprint(n))...)
			if err != nil || c.fr.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				return
			}
		}
	}},
	{"streams that make the server reset them (MadeYouReset)", nil, func(c *h2conn, from int, over func() bool) {
		go drain(c)
		for n := 1; !over(); n++ {
			id, err := c.open(false, append(writeHead(fmt.Sprintf("made%d", from), fmt.Sprint(n)), "content-length", "1")...)
			if err != nil {
				return
			}
			switch n % 4 {
			case 0: // a window above 2^31-1
				_, err = c.Write(raw(http2.FrameWindowUpdate, 0, id, []byte{0x7f, 0xff, 0xff, 0xff}))
			case 1: // more than its length
				err = c.fr.WriteData(id, true, []byte("too long"))
			case 2: // it waits for itself
				_, err = c.Write(raw(http2.FramePriority, 0, id, append(binary.BigEndian.AppendUint32(nil, id), 1)))
			case 3: // a head behind the head that ends nothing
				err = c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode("x", "y"), EndHeaders: true})
			}
			if err != nil {
				return
			}
		}
	}},
	{"CONTINUATION without end (CVE-2023-45288)", nil, func(c *h2conn, _ int, over func() bool) {
		_ = c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(readHead("/open/1")...)})
		// Literals that are not indexed, so that nothing is thrown out of a table.
		field := append([]byte{0x00, 0x04, 'x', '-', 'a', 'b', 0x7f, 0x81, 0x06}, bytes.Repeat([]byte{'y'}, 127+1+6*128)...)
		block := bytes.Repeat(field, 16000/len(field))
		pour(c, raw(http2.FrameContinuation, 0, 1, block), over)
	}},
	{"empty CONTINUATION", nil, func(c *h2conn, _ int, over func() bool) {
		_ = c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(readHead("/open/1")...)})
		pour(c, raw(http2.FrameContinuation, 0, 1, nil), over)
	}},
	{"SETTINGS, whose ACK is not read", nil, func(c *h2conn, _ int, over func() bool) {
		pour(c, raw(http2.FrameSettings, 0, 0, []byte{0, 4, 0, 0, 0xff, 0xff}), over)
	}},
	{"SETTINGS of many entries", nil, func(c *h2conn, _ int, over func() bool) {
		pour(c, raw(http2.FrameSettings, 0, 0, bytes.Repeat([]byte{0, 1, 0, 0, 0x10, 0}, 2700)), over)
	}},
	{"PING, whose ACK is not read", nil, func(c *h2conn, _ int, over func() bool) {
		pour(c, raw(http2.FramePing, 0, 0, make([]byte, 8)), over)
	}},
	{"PING, whose ACK is read", nil, func(c *h2conn, _ int, over func() bool) {
		go drain(c)
		pour(c, raw(http2.FramePing, 0, 0, make([]byte, 8)), over)
	}},
	{"empty DATA", nil, func(c *h2conn, _ int, over func() bool) {
		go drain(c)
		if id, err := c.open(false, writeHead("empty", "1")...); err == nil {
			pour(c, raw(http2.FrameData, 0, id, nil), over)
		}
	}},
	{"DATA of padding alone", nil, func(c *h2conn, _ int, over func() bool) {
		go drain(c)
		if id, err := c.open(false, writeHead("padded", "1")...); err == nil {
			pour(c, raw(http2.FrameData, http2.FlagDataPadded, id, append([]byte{255}, make([]byte, 255)...)), over)
		}
	}},
	{"PRIORITY and WINDOW_UPDATE", nil, func(c *h2conn, _ int, over func() bool) {
		go drain(c)
		pour(c, append(raw(http2.FramePriority, 0, 9, []byte{0, 0, 0, 1, 1}), raw(http2.FrameWindowUpdate, 0, 0, []byte{0, 0, 0, 1})...), over)
	}},
	{"frames that nobody knows", nil, func(c *h2conn, _ int, over func() bool) {
		pour(c, raw(0xbe, 0xff, 7, make([]byte, 1000)), over)
	}},
	{"a head that grows in its table (HPACK bomb)", nil, func(c *h2conn, _ int, over func() bool) {
		go drain(c)
		if _, err := c.open(true, append(readHead("/open/1"), "x-bomb", strings.Repeat("y", 3000))...); err != nil {
			return
		}
		plain := bytes.Clone(c.encode(readHead("/open/1")...))
		for !over() { // 62 is the newest of the table: one byte for 3,000
			id := c.next
			c.next += 2
			block := append(bytes.Clone(plain), bytes.Repeat([]byte{0x80 | 62}, 16000)...)
			if c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: true, EndHeaders: true}) != nil {
				return
			}
		}
	}},
	{"answers for which there is no window", []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, func(c *h2conn, _ int, over func() bool) {
		go drain(c)
		for range 100 {
			if _, err := c.open(true, readHead("/open/large")...); err != nil {
				return
			}
		}
		for !over() {
			time.Sleep(10 * time.Millisecond)
		}
	}},
	{"answers taken byte by byte", []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1}}, func(c *h2conn, _ int, over func() bool) {
		go drain(c)
		for range 100 {
			if _, err := c.open(true, readHead("/open/large")...); err != nil {
				return
			}
		}
		for id := uint32(1); !over(); id = (id + 2) % 200 {
			if c.fr.WriteWindowUpdate(id, 1) != nil {
				return
			}
		}
	}},
	{"answers that nobody reads", []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1 << 30}}, func(c *h2conn, _ int, over func() bool) {
		_ = c.fr.WriteWindowUpdate(0, 1<<30)
		for range 100 {
			if _, err := c.open(true, readHead("/open/large")...); err != nil {
				return
			}
		}
		for !over() {
			time.Sleep(10 * time.Millisecond)
		}
	}},
	{"bodies that do not end", nil, func(c *h2conn, from int, over func() bool) {
		go drain(c)
		for n := range 100 {
			id, err := c.open(false, writeHead(fmt.Sprintf("body%d-%d", from, n), "1")...)
			for range 4 {
				if err == nil {
					err = c.fr.WriteData(id, false, make([]byte, 15<<10))
				}
			}
			if err != nil {
				return
			}
		}
		for !over() {
			time.Sleep(10 * time.Millisecond)
		}
	}},
	{"more streams than are allowed", nil, func(c *h2conn, from int, over func() bool) {
		go drain(c)
		for n := 0; !over(); n++ {
			if _, err := c.open(true, writeHead(fmt.Sprintf("slow%d-%d", from, n), "1")...); err != nil {
				return
			}
		}
	}},
}

const (
	floodTime  = 700 * time.Millisecond
	floodConns = 4
)

// Floods of HTTP/2 frames at the listener, in clear text and over TLS, each on
// several connections, made anew as often as the proxy ends them.
func TestFloodsOfHTTP2(t *testing.T) {
	for name, secure := range map[string]bool{"in clear text": false, "over TLS": true} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			settings := plain
			if secure {
				cert := certificate(t)
				settings += fmt.Sprintf("\nlisten: {address: ADDRESS, tls: {cert_file: %q, key_file: %q}}\n", cert, cert)
			}
			p := newProxy(t, "http://"+a.addr, settings)
			w := watch(t, p, a, secure)
			for i, f := range floods {
				before := w.memory.now()
				conns := f.strike(t, p.Addr, secure, i)
				t.Logf("%s: %d connections, memory + %.0f MB", f.name, conns, (w.memory.now()-before)/megabyte)
				if conns < floodConns {
					t.Errorf("%s: only %d connections could be made", f.name, conns)
				}
			}
			w.end(200 * megabyte)
			var admitted float64
			for end := time.Now().Add(soon); admitted < float64(a.count()) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				admitted = p.metrics(`fenceproxy_requests_total{decision="admitted",rule="things"}`)[0] // it may be counted behind its answer
			}
			if applied := a.count(); admitted != float64(applied) {
				t.Errorf("%.0f writes were admitted, and %d applied", admitted, applied)
			}
		})
	}
}

// strike floods the proxy for a time, and returns with how many connections.
func (f flood) strike(t *testing.T, addr string, secure bool, n int) (conns int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range floodConns {
		wg.Go(func() {
			var end time.Time // counted from the first connection, however late a busy machine makes it
			over := func() bool { return !end.IsZero() && time.Now().After(end) }
			for !over() {
				c, err := dialH2(addr, secure, f.settings...)
				if err != nil {
					if over() {
						return
					}
					t.Errorf("%s: %v", f.name, err)
					return
				}
				if end.IsZero() {
					end = time.Now().Add(floodTime)
				}
				_ = c.SetDeadline(end.Add(100 * time.Millisecond)) // it may take nothing more
				mu.Lock()
				conns++
				from := n*1_000_000 + conns
				mu.Unlock()
				f.run(c, from, over)
				c.Close()
			}
		})
	}
	wg.Wait()
	return conns
}
