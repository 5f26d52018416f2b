package listen

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// authority signs the certificates of a test.
type authority struct {
	*testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{T: t}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue signs a certificate for name, as PEM.
func (a *authority) issue(name string, until time.Time) (cert, key []byte) {
	a.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, k.Public(), a.key)
	if err != nil {
		a.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// put writes a certificate for name and its key into dir.
func (a *authority) put(dir, name string) {
	a.Helper()
	cert, key := a.issue(name, time.Now().Add(time.Hour))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		a.Fatal(err)
	}
	write(a.T, filepath.Join(dir, "tls.crt"), cert)
	write(a.T, filepath.Join(dir, "tls.key"), key)
}

// served listens with the files of dir and answers with a byte.
func served(t *testing.T, f Files) (addr string, c *Certificates, logs *observer.ObservedLogs) {
	t.Helper()
	c, err := NewCertificates(f)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	l, err := Listen(Options{Address: "127.0.0.1:0", TLS: c, Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				_, _ = nc.Write([]byte("x"))
			}()
		}
	}()
	return l.Addr().String(), c, logs
}

// presented is the name in the certificate that a client is shown.
func presented(t *testing.T, addr string) string {
	t.Helper()
	nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	return nc.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// later lets the files be looked at once more.
func (c *Certificates) later() { c.ago(lookAgain) }

// ago says when the files were looked at last.
func (c *Certificates) ago(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = time.Now().Add(-d)
}

func filesOf(dir string) Files {
	return Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
}

// A changed certificate is shown to the clients that come after; a bad one,
// a missing one, and half a new pair leave the old one, and are told once.
func TestReload(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	a.put(dir, "one")
	addr, c, logs := served(t, filesOf(dir))
	want := func(name string, lines int) {
		t.Helper()
		for range 3 {
			c.later()
			if got := presented(t, addr); got != name {
				t.Fatalf("%s is presented, want %s", got, name)
			}
		}
		if got := logs.Len(); got != lines {
			t.Fatalf("%d log lines, want %d: %v", got, lines, logs.All())
		}
	}
	want("one", 0)
	a.put(dir, "two")
	c.ago(-time.Hour) // for as long as this takes
	if got := presented(t, addr); got != "one" {
		t.Errorf("%s is presented within a second", got)
	}
	want("two", 1)

	cert, key := a.issue("three", time.Now().Add(time.Hour))
	write(t, filepath.Join(dir, "tls.crt"), cert)
	want("two", 2) // half of the pair
	write(t, filepath.Join(dir, "tls.key"), key)
	want("three", 3)

	write(t, filepath.Join(dir, "tls.crt"), []byte("nothing"))
	want("three", 4)
	if err := os.Remove(filepath.Join(dir, "tls.crt")); err != nil {
		t.Fatal(err)
	}
	want("three", 5)
	write(t, filepath.Join(dir, "tls.crt"), cert)
	want("three", 6)
	if m := logs.All()[4].Message; !strings.Contains(m, "the old certificate stays") {
		t.Error(m)
	}
}

// alike gives the files of dir a size and a time that tell nothing.
func alike(t *testing.T, dir string) {
	t.Helper()
	for _, path := range []string{filesOf(dir).Cert, filesOf(dir).Key} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, append(text, strings.Repeat("\n", 2000-len(text))...))
		if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// Kubernetes puts new files into a new directory and turns a link to it.
func TestReloadBehindALink(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	a.put(filepath.Join(dir, "..2026_01"), "one")
	a.put(filepath.Join(dir, "..2026_02"), "two")
	alike(t, filepath.Join(dir, "..2026_01"))
	alike(t, filepath.Join(dir, "..2026_02"))
	link := func(name, to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..data", "..2026_01")
	link("tls.crt", "..data/tls.crt")
	link("tls.key", "..data/tls.key")
	addr, c, _ := served(t, filesOf(dir))
	if got := presented(t, addr); got != "one" {
		t.Fatal(got)
	}
	link("..data_tmp", "..2026_02")
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	c.later()
	if got := presented(t, addr); got != "two" {
		t.Errorf("%s is presented", got)
	}
}

// With client_ca_file a client needs a certificate of one of its authorities,
// the present ones, whatever it has been shown before.
func TestClientCertificates(t *testing.T) {
	ours, theirs, dir := newAuthority(t), newAuthority(t), t.TempDir()
	ours.put(dir, "server")
	f := filesOf(dir)
	f.ClientCA = filepath.Join(dir, "ca.crt")
	write(t, f.ClientCA, ours.pem())
	addr, c, _ := served(t, f)
	cache := tls.NewLRUClientSessionCache(10)
	try := func(a *authority) error {
		config := &tls.Config{InsecureSkipVerify: true, ClientSessionCache: cache}
		if a != nil {
			cert, err := tls.X509KeyPair(a.issue("client", time.Now().Add(time.Hour)))
			if err != nil {
				t.Fatal(err)
			}
			// Sent even where the server does not name its authority.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
		}
		nc, err := tls.Dial("tcp", addr, config)
		if err != nil {
			return err
		}
		defer nc.Close()
		_, err = io.ReadAll(nc) // with TLS 1.3 the refusal comes behind the handshake
		return err
	}
	if err := try(ours); err != nil {
		t.Errorf("ours: %v", err)
	}
	if try(nil) == nil || try(theirs) == nil {
		t.Error("a client without a certificate of ours comes in")
	}
	write(t, f.ClientCA, theirs.pem())
	c.later()
	if try(ours) == nil {
		t.Error("the old authority still counts")
	}
	if err := try(theirs); err != nil {
		t.Errorf("the new authority: %v", err)
	}
}

// Which file is to blame.
func TestBadFiles(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	a.put(dir, "one")
	a.put(filepath.Join(dir, "other"), "two")
	good := filesOf(dir)
	garbage := filepath.Join(dir, "garbage")
	write(t, garbage, []byte("-----BEGIN NOTHING-----"))
	for _, tt := range []struct {
		f       Files
		setting string
	}{
		{Files{"none", good.Key, ""}, "cert_file"},
		{Files{garbage, good.Key, ""}, "cert_file"},
		{Files{good.Key, good.Key, ""}, "cert_file"},
		{Files{dir, good.Key, ""}, "cert_file"},
		{Files{good.Cert, "none", ""}, "key_file"},
		{Files{good.Cert, garbage, ""}, "key_file"},
		{Files{good.Cert, filepath.Join(dir, "other", "tls.key"), ""}, "key_file"},
		{Files{good.Cert, good.Key, "none"}, "client_ca_file"},
		{Files{good.Cert, good.Key, garbage}, "client_ca_file"},
	} {
		var bad *FileError
		if _, err := NewCertificates(tt.f); !errors.As(err, &bad) || bad.Setting != tt.setting {
			t.Errorf("%v: %v, want %s", tt.f, err, tt.setting)
		}
	}
	cert, key := a.issue("old", time.Now().Add(-time.Hour))
	write(t, good.Cert, cert)
	write(t, good.Key, key)
	c, err := NewCertificates(good)
	if err != nil {
		t.Fatal(err)
	}
	if !time.Now().After(c.Expires()) {
		t.Error("an old certificate has not expired")
	}
}

// A certificate that expires while the proxy runs is told of once, until it is
// renewed.
func TestExpiresUnderWay(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	put := func(until time.Time) {
		cert, key := a.issue("one", until)
		write(t, filesOf(dir).Cert, cert)
		write(t, filesOf(dir).Key, key)
	}
	put(time.Now().Add(-time.Hour))
	c, err := NewCertificates(filesOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	c.setting, c.log = "listen.tls", zap.New(core)
	told := func() int {
		for range 3 {
			c.looked = time.Time{} // long ago
			c.now()
		}
		return logs.FilterMessageSnippet("listen.tls: the certificate has expired").Len()
	}
	if n := told(); n != 1 {
		t.Errorf("told %d times", n)
	}
	put(time.Now().Add(time.Hour))
	if n := told(); n != 1 {
		t.Errorf("told %d times after it was renewed", n)
	}
	put(time.Now().Add(-time.Minute))
	if n := told(); n != 2 {
		t.Errorf("told %d times of two", n)
	}
}

// Nothing older than TLS 1.2.
func TestOldTLS(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	a.put(dir, "one")
	addr, _, _ := served(t, filesOf(dir))
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if nc, err := tls.Dial("tcp", addr, config); err == nil {
		_ = nc.Close()
		t.Error("TLS 1.1 is spoken")
	}
	config.MaxVersion = tls.VersionTLS12
	nc, err := tls.Dial("tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	_ = nc.Close()
}
