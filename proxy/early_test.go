package proxy

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// An early refusal by an HTTP/2 upstream whose window holds the upload up, when
// the proxy has read the whole of it from an HTTP/1 client. Its body comes a
// little behind its head.
func TestEarlyRefusalBehindTheBody(t *testing.T) {
	for _, path := range []string{"/login", "/accounts/42"} {
		t.Run(path, func(t *testing.T) {
			r := newRig(t, nil)
			l := listen(t)
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
				fr := http2.NewFramer(c, c)
				_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
				_ = fr.WriteSettingsAck()
				var b bytes.Buffer
				enc := hpack.NewEncoder(&b)
				for {
					f, err := fr.ReadFrame()
					if err != nil {
						return
					}
					if d, ok := f.(*http2.DataFrame); ok {
						_ = enc.WriteField(hpack.HeaderField{Name: ":status", Value: "413"})
						_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: d.StreamID, BlockFragment: b.Bytes(), EndHeaders: true})
						time.Sleep(200 * time.Millisecond)
						_ = fr.WriteData(d.StreamID, true, []byte("too large"))
					}
				}
			}()
			r.proxy("h2c://"+l.Addr().String(), nil)
			c := r.dial()
			size := "3000"
			c.send("POST " + path + " HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: " + size + "\n\n" + strings.Repeat("x", 3000))
			res := c.receive()
			if res.StatusCode != 413 || res.body != "too large" || res.err != nil {
				t.Errorf("%d %q %v", res.StatusCode, res.body, res.err)
			}
		})
	}
}

var _ net.Conn
