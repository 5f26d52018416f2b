package torture

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The sizes of the real process. They are measured, and told, and not held
// against anything: `make bench` shows them.

const megabyte = 1 << 20

// sized starts the proxy in front of an API that takes everything.
func sized(b *testing.B, s Settings) *Proxy {
	binary, err := Binary()
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
	s.Upstream = "http://" + l.Addr().String()
	p, err := NewProxy(NewHistory(), binary, b.TempDir(), s)
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
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
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
	p := sized(b, Settings{})
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
	for _, how := range []struct {
		name       string
		tls, http2 bool
	}{{name: "clear"}, {name: "tls", tls: true}, {name: "http2", tls: true, http2: true}} {
		b.Run(how.name, func(b *testing.B) {
			s, scheme := Settings{}, "http"
			if how.tls {
				s.Cert, scheme = certificate(b), "https"
			}
			p := sized(b, s)
			for b.Loop() {
				idle := make([]*http.Transport, 10_000)
				for i := range idle {
					idle[i] = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: how.http2}
					stay(b, idle[i], fmt.Sprintf("%s://%s/things/%d", scheme, p.Addr, i), how.http2)
				}
				b.ReportMetric(float64(p.rss(b, "VmRSS"))/megabyte, "RSS-MB")
				for _, t := range idle {
					t.CloseIdleConnections()
				}
			}
		})
	}
}

// stay writes once; its connection is kept.
func stay(b *testing.B, t *http.Transport, url string, http2 bool) {
	req, err := http.NewRequest(http.MethodPut, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("X-Fencing-Token", "1")
	res, err := t.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK || (res.ProtoMajor == 2) != http2 {
		b.Fatalf("%s over %s: %v", res.Status, res.Proto, err)
	}
}

// certificate makes a file with a certificate and its key.
func certificate(b *testing.B) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		b.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "cert.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.Fatal(err)
	}
	return path
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
