package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"time"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy/upstream"
)

func planUpstream(cfg *config.Config, report *config.Report) *upstream.Upstream {
	if report.Has("upstream") || report.Has("listen.trusted_proxies") {
		return nil
	}
	at, err := upstreamURL(cfg.Upstream.URL)
	if err != nil {
		report.Add(cfg.Errorf("upstream.url", "%v", err))
		return nil
	}
	o := upstream.Options{
		URL: at, ConnectTimeout: cfg.Upstream.ConnectTimeout, PreserveHost: cfg.Upstream.PreserveHost,
		TrustedProxies:    cfg.Listen.Trusted(),
		UnsettledStatuses: cfg.Upstream.UnsettledStatuses, MaxHeader: int(cfg.Limits.MaxHeader),
		IdleTimeout: keepIdle,
	}
	if at.Scheme == "https" {
		o.TLS = planClientTLS(cfg, report, "upstream.tls", cfg.Upstream.TLS)
	}
	up, err := upstream.New(o)
	if err != nil {
		report.Add(cfg.Errorf("upstream.url", "%v", err))
	}
	return up
}

// upstreamURL takes a socket's path as it stands.
func upstreamURL(s string) (*url.URL, error) {
	if path, ok := config.Socket(s); ok {
		return &url.URL{Scheme: "unix", Path: path}, nil
	}
	return url.Parse(s)
}

// planClientTLS reads the files that a tls setting names.
func planClientTLS(cfg *config.Config, report *config.Report, setting string, c config.TLS) *upstream.TLS {
	t := &upstream.TLS{ServerName: c.ServerName}
	if pem := readPEM(cfg, report, setting+".ca_file", c.CAFile); pem != nil {
		t.Roots = x509.NewCertPool()
		if !t.Roots.AppendCertsFromPEM(pem) {
			report.Add(cfg.Errorf(setting+".ca_file", "%s holds no certificate; give a PEM file of the authorities that the server's certificate may come from", c.CAFile))
		}
	}
	cert := readPEM(cfg, report, setting+".cert_file", c.CertFile)
	key := readPEM(cfg, report, setting+".key_file", c.KeyFile)
	if cert == nil || key == nil {
		return t
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		report.Add(cfg.Errorf(setting+".cert_file", "%s and %s are not a certificate and its key: %v", c.CertFile, c.KeyFile, err))
		return t
	}
	t.Certificate = &pair
	if pair.Leaf != nil { // not with GODEBUG=x509keypairleaf=0
		warnExpired(cfg, report, setting+".cert_file", pair.Leaf.NotAfter, "the server")
	}
	return t
}

// warnExpired warns of a certificate that is not valid any more.
func warnExpired(cfg *config.Config, report *config.Report, setting string, until time.Time, who string) {
	if time.Now().After(until) {
		report.Warn(cfg.Errorf(setting, "the certificate has expired on %s, and %s will refuse it; renew it", until.Format(time.DateOnly), who))
	}
}

// readPEM reads the file that a setting names; nil where it names none or the
// file cannot be read, which is reported.
func readPEM(cfg *config.Config, report *config.Report, setting, name string) []byte {
	if name == "" {
		return nil
	}
	b, err := readWhole(name)
	if err != nil {
		report.Add(cfg.Errorf(setting, "%s cannot be read: %v; give a readable PEM file", name, err))
		return nil
	}
	return b
}

// readWhole reads a file that a reload reads again. Its errors do not name it.
func readWhole(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, errors.New("it is no file") // a pipe would be waited for, and with the reload a stop
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(name)
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return b, err
}
