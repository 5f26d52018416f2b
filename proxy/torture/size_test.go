package torture

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The sizes of the real process. They are measured, and told, and not held
// against anything: `make bench` shows them.

const megabyte = 1 << 20

// sized starts the proxy in front of an API that takes everything.
func sized(b *testing.B) *Proxy {
	binary, err := built()
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	api := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })}
	go func() { _ = api.Serve(l) }()
	b.Cleanup(func() { _ = api.Close() })
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

// rss is what the process has in memory, in bytes.
func (p *Proxy) rss(b *testing.B, field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		b.Fatalf("only Linux tells what a process has in memory: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb << 10
		}
	}
	b.Fatal("no " + field)
	return 0
}

// BenchmarkUploadSize is a 200 MB upload through a fenced rule: by how much
// the process grows at the most.
func BenchmarkUploadSize(b *testing.B) {
	p := sized(b)
	b.SetBytes(200 * megabyte)
	for b.Loop() {
		before := p.rss(b, "VmRSS")
		req, err := http.NewRequest(http.MethodPut, "http://"+p.Addr+"/things/1", io.LimitReader(zeros{}, 200*megabyte))
		if err != nil {
			b.Fatal(err)
		}
		req.ContentLength = 200 * megabyte
		req.Header.Set("X-Fencing-Token", "1")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			b.Fatal(res.Status)
		}
		b.ReportMetric(float64(p.rss(b, "VmHWM")-before)/megabyte, "grown-MB")
	}
}

// zeros is a body without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// BenchmarkIdleClients is 10,000 clients that wrote once and stay connected.
func BenchmarkIdleClients(b *testing.B) {
	const clients = 10_000
	p := sized(b)
	for b.Loop() {
		conns := make([]net.Conn, 0, clients)
		for i := range clients {
			c, err := net.Dial("tcp", p.Addr)
			if err != nil {
				b.Fatalf("client %d: %v", i, err)
			}
			conns = append(conns, c)
			fmt.Fprintf(c, "PUT /things/%d HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 1\r\nContent-Length: 0\r\n\r\n", i)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || res.StatusCode != http.StatusOK {
				b.Fatalf("client %d: %v %v", i, res, err)
			}
		}
		b.ReportMetric(float64(p.rss(b, "VmRSS"))/megabyte, "RSS-MB")
		for _, c := range conns {
			_ = c.Close()
		}
	}
}

// BenchmarkBinarySize is the binary with every store, as make build makes it.
func BenchmarkBinarySize(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "fenceproxy")
	out, err := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "github.com/fenceproxy/fenceproxy/cmd/fenceproxy").CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.ReportMetric(float64(info.Size())/megabyte, "MB")
	}
}
