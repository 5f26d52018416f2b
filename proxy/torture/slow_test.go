package torture

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// BenchmarkSlowClients is 500 clients that stall in uploads of 1 MB: by how
// much the process grows. They stall before as much has come as is read before
// admission; in flight, with half of it sent; or because the upstream does not
// read.
func BenchmarkSlowClients(b *testing.B) {
	for _, bb := range []struct {
		name string
		sent int // bytes of each body, as far as they are taken
		read bool
	}{
		{"not admitted", 30 << 10, true},
		{"in flight", megabyte / 2, true},
		{"slow upstream", megabyte - 1, false},
	} {
		b.Run(bb.name, func(b *testing.B) {
			p := sized(b, Settings{})
			if !bb.read {
				p = deaf(b)
			}
			for b.Loop() {
				before := p.rss(b, "VmRSS")
				closeAll := stall(b, p, 500, bb.sent)
				time.Sleep(time.Second) // for the bytes to be where they stay
				b.ReportMetric(float64(p.rss(b, "VmRSS")-before)/megabyte, "grown-MB")
				closeAll()
			}
		})
	}
}

// deaf starts the proxy in front of an API that reads no request.
func deaf(b *testing.B) *Proxy {
	binary, err := Binary()
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	over := make(chan struct{})
	api := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over })}
	go func() { _ = api.Serve(l) }()
	b.Cleanup(func() { close(over); _ = api.Close() })
	p, err := NewProxy(NewHistory(), binary, b.TempDir(), Settings{Upstream: "http://" + l.Addr().String()})
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Kill)
	return p
}

// stall starts uploads of 1 MB, each on a key of its own, that do not go on
// behind their first bytes.
func stall(b *testing.B, p *Proxy, clients, sent int) (closeAll func()) {
	conns := make([]net.Conn, 0, clients)
	body := strings.Repeat("x", sent)
	for i := range clients {
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			b.Fatalf("client %d: %v", i, err)
		}
		conns = append(conns, c)
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // what is not taken by then stays here
		fmt.Fprintf(c, "PUT /things/%d HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 1\r\nContent-Length: %d\r\n\r\n%s", i, megabyte, body)
	}
	return func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}
}
