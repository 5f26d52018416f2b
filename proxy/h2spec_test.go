package proxy

import (
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// h2spec is the public suite for HTTP/2 servers. It has no go.mod of its own.
const h2spec = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"

// In no case of h2spec the proxy does worse than Go's own server does with a
// plain reverse proxy behind it.
func TestH2spec(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute, and fetches h2spec")
	}
	dir := t.TempDir()
	install := exec.Command("go", "install", h2spec)
	install.Dir = dir // outside of this module, which does without
	install.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-mod=mod")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("go install %s: %v\n%s", h2spec, err, out)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(w, "hello\n")
	}))
	t.Cleanup(api.Close)
	r := newRig(t, nil)
	r.proxy(api.URL, nil)
	// No fence touches /login.
	ours, plain := judged(t, dir, r.addr), judged(t, dir, plainProxy(t, api.URL))
	worse := slices.DeleteFunc(slices.Clone(ours), func(c string) bool { return slices.Contains(plain, c) })
	for tries := 0; len(worse) > 0 && tries < 3; tries++ { // some cases are about time
		again := judged(t, dir, r.addr)
		worse = slices.DeleteFunc(worse, func(c string) bool { return !slices.Contains(again, c) })
	}
	t.Logf("ours fails %d: %q", len(ours), ours)
	t.Logf("Go's own fails %d: %q", len(plain), plain)
	for _, c := range worse {
		t.Errorf("Go's own server passes where the proxy fails: %s", c)
	}
}

// plainProxy is Go's server and its reverse proxy in front of the API.
func plainProxy(t *testing.T, api string) (addr string) {
	target, err := url.Parse(api)
	if err != nil {
		t.Fatal(err)
	}
	quiet := log.New(io.Discard, "", 0)
	srv := &http.Server{Protocols: &http.Protocols{}, ErrorLog: quiet, Handler: &httputil.ReverseProxy{
		ErrorLog: quiet,
		Rewrite:  func(p *httputil.ProxyRequest) { p.SetURL(target) },
	}}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	l := listen(t)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return l.Addr().String()
}

// judged runs the suite and returns the cases that fail.
func judged(t *testing.T, dir, addr string) (failed []string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(dir, port+".xml")
	out, _ := exec.Command(filepath.Join(dir, "h2spec"), "-h", host, "-p", port, "-P", "/login", "-o", "3", "-j", report).CombinedOutput() // 1 where cases fail
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var suites struct {
		Suite []struct {
			Package string `xml:"package,attr"`
			Case    []struct {
				Name    string    `xml:"classname,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, s := range suites.Suite {
		for _, c := range s.Case {
			cases++
			if c.Failure != nil || c.Error != nil {
				failed = append(failed, fmt.Sprint(s.Package, ": ", c.Name))
			}
		}
	}
	if cases < 140 {
		t.Fatalf("only %d cases were tried: this has shown nothing\n%s", cases, out)
	}
	return failed
}
