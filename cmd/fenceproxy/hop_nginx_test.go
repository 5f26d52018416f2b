package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// TestHops drives the real binary in front of a real nginx over each kind of hop
// that is no plain TCP.
func TestHops(t *testing.T) {
	for _, hop := range []struct {
		name string
		join func(*davSite) (listen, upstream string)
		log  string // what nginx says of each connection, after its numbers
	}{
		{"TLS 1.3 and a client certificate", func(s *davSite) (string, string) {
			davCertificates(s.T, s.dir)
			return fmt.Sprintf("listen %[1]s ssl; ssl_protocols TLSv1.3; ssl_certificate %[2]s/server.pem; ssl_certificate_key %[2]s/server.key; ssl_client_certificate %[2]s/ca.pem; ssl_verify_client on;", s.nginx, s.dir),
				fmt.Sprintf(`url: "https://%[1]s", tls: {ca_file: "%[2]s/ca.pem", cert_file: "%[2]s/client.pem", key_file: "%[2]s/client.key", server_name: nginx.test}`, s.nginx, s.dir)
		}, "TLSv1.3 SUCCESS PROXY 198.51.100.9, 127.0.0.1"},
		{"TLS 1.2", func(s *davSite) (string, string) {
			davCertificates(s.T, s.dir)
			return fmt.Sprintf("listen %[1]s ssl; ssl_protocols TLSv1.2; ssl_certificate %[2]s/server.pem; ssl_certificate_key %[2]s/server.key;", s.nginx, s.dir),
				fmt.Sprintf(`url: "https://%[1]s", tls: {ca_file: "%[2]s/ca.pem", server_name: nginx.test}`, s.nginx, s.dir)
		}, "TLSv1.2 NONE PROXY 198.51.100.9, 127.0.0.1"},
		{"a unix socket", func(s *davSite) (string, string) {
			s.nginx = filepath.Join(servertest.SocketDir(s.T), "nginx.sock")
			return "listen unix:" + s.nginx + ";", fmt.Sprintf(`url: "unix:%s", preserve_host: false`, s.nginx)
		}, "- - localhost 198.51.100.9, 127.0.0.1"},
	} {
		t.Run(hop.name, func(t *testing.T) {
			s := newDavSiteOver(t, hop.join)
			const path = "/shares/hop/a.txt"
			asked := []string{"-H", "X-Forwarded-For: 198.51.100.9"} // curl is a trusted proxy here
			for i := range 20 {
				status := http.StatusNoContent
				if i == 0 {
					status = http.StatusCreated
				}
				text := fmt.Sprintf("version %d\n", i)
				s.wantAdmitted(s.put(path, uint64(i+2), text, asked...), status)
				s.wantFile(path, text)
			}
			s.wantRefused(s.put(path, 1, "too late\n"), http.StatusConflict, "stale-token")
			large := strings.Repeat("0123456789abcdef", 1<<16)
			s.wantAdmitted(s.put(path, 30, large, asked...), http.StatusNoContent)
			s.wantFile(path, large)
			s.wantHop(strings.Replace(hop.log, "PROXY", s.proxy, 1))
		})
	}
}

// wantHop looks at what nginx saw of the connections: 21 requests, and less
// connections than that.
func (s *davSite) wantHop(about string) {
	s.Helper()
	var b []byte
	// A request's line comes behind its answer.
	for end := time.Now().Add(davPatience); bytes.Count(b, []byte("\n")) < 21 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var err error
		if b, err = os.ReadFile(filepath.Join(s.dir, "hop.log")); err != nil {
			s.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	kept := 0
	for _, line := range lines {
		var connection, request int
		if _, err := fmt.Sscan(line, &connection, &request); err != nil || !strings.HasSuffix(line, fmt.Sprintf("%d %s", request, about)) {
			s.Errorf("nginx saw %q (%v), want %q behind its numbers", line, err, about)
		}
		if request > 1 {
			kept++
		}
	}
	if len(lines) != 21 || kept == 0 {
		s.Errorf("%d requests, %d of them on a connection that was kept; want 21, and some:\n%s", len(lines), kept, b)
	}
}

// davCertificates makes an authority (ca.pem), and certificates of it for
// nginx.test (server.pem) and for the proxy (client.pem), with their keys.
func davCertificates(t *testing.T, dir string) {
	t.Helper()
	var ca *x509.Certificate
	var caKey *ecdsa.PrivateKey
	for i, name := range []string{"ca", "server", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
		switch name {
		case "ca":
			template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
			ca, caKey = template, key
		case "server":
			template.DNSNames, template.ExtKeyUsage = []string{"nginx.test"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		case "client":
			template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}
		der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
		if err != nil {
			t.Fatal(err)
		}
		pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		davWrite(t, filepath.Join(dir, name+".pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
		davWrite(t, filepath.Join(dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
	}
}
