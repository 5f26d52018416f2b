package attacks

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// patience is how long one step may take on a machine that is busy.
const patience = 30 * time.Second

func TestMain(m *testing.M) { torture.Main(m) }

// proxy is the binary as a process, in a directory of its own.
type proxy struct {
	*torture.Proxy
	t   *testing.T
	dir string
}

// plain are the rules of most tests: writes below /things are fenced, those
// below /open are not.
const plain = `
rules:
  - {name: things, path: "/things/{id}", key: "thing:{id}"}
  - {name: open, path: "/open/{id}", token: none}
`

// newProxy starts the proxy in front of an upstream. settings are the rest of
// its configuration, in YAML; listen, admin and store are there.
func newProxy(t *testing.T, upstream, settings string) *proxy {
	t.Helper()
	binary, err := torture.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p, err := torture.NewProxy(torture.NewHistory(), binary, dir, torture.Settings{Upstream: upstream})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(settings, "\nlisten:") {
		settings += "\nlisten: {address: ADDRESS}\n"
	}
	if !strings.Contains(settings, "\nupstream:") {
		settings += "\nupstream: {url: UPSTREAM, settle: 300ms, response_timeout: 10s}\n"
	}
	settings = strings.NewReplacer("ADDRESS", p.Addr, "UPSTREAM", upstream).Replace(settings)
	settings += fmt.Sprintf("\nadmin: {address: %s}\nstore: {embedded: {path: %q}}\n", strings.TrimPrefix(p.Admin, "http://"), filepath.Join(dir, "store"))
	if err := os.WriteFile(filepath.Join(dir, "fenceproxy.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.KillAfter(t, "the proxy")
	return &proxy{Proxy: p, t: t, dir: dir}
}

var web = &http.Client{Transport: &http.Transport{
	DisableKeepAlives: true,
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // a certificate of this test's
}, Timeout: patience}

// certificate makes a file with a certificate and its key.
func certificate(t *testing.T) (file string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	c := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	file = filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// admin is what the admin listener answers to a GET.
func (p *proxy) admin(path string) string {
	res, err := web.Get(p.Admin + path)
	if err != nil {
		p.t.Errorf("the admin listener: %v", err)
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Errorf("the admin listener: %s %v %s", res.Status, err, body)
	}
	return string(body)
}

// metrics are the named figures of the process, in the order asked for.
func (p *proxy) metrics(names ...string) []float64 {
	found := make([]float64, len(names))
	for line := range strings.Lines(p.admin("/metrics")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		for i := range names {
			if n, err := strconv.ParseFloat(value, 64); names[i] == name && err == nil {
				found[i] = n
			}
		}
	}
	return found
}

// quiet waits until nothing is in flight, unsettled or waiting.
func (p *proxy) quiet() {
	p.t.Helper()
	p.eventually("nothing is in flight, unsettled or waiting", func() bool {
		m := p.metrics("fenceproxy_writes_in_flight", "fenceproxy_writes_unsettled", "fenceproxy_waiting")
		return m[0]+m[1]+m[2] == 0
	})
}

// eventually waits for a condition.
func (p *proxy) eventually(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s: not after %v", what, patience)
		}
	}
}
