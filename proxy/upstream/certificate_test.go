package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"
)

// authority signs certificates for tests.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign makes a certificate of the template; an authority that has none yet signs
// itself.
func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "fenceproxy test"}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	template.NotBefore = time.Now().Add(-2 * time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// issue returns a certificate of 127.0.0.1, or of the given names.
func (a *authority) issue(change func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	if change != nil {
		change(template)
	}
	cert, key := a.sign(template)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// upstream is one over TLS at addr that believes this authority. It keeps
// connections for ttl.
func (a *authority) upstream(addr string, ttl time.Duration, change func(*TLS)) *Upstream {
	a.t.Helper()
	t := &TLS{Roots: a.pool()}
	if change != nil {
		change(t)
	}
	u, err := New(Options{URL: &url.URL{Scheme: "https", Host: addr}, TLS: t, PreserveHost: true, UnsettledStatuses: []int{202, 502, 504},
		MaxHeader: 8 << 10, ConnectTimeout: 10 * time.Second, IdleTimeout: ttl})
	if err != nil {
		a.t.Fatal(err)
	}
	return u
}

// listen starts a listener; config is changed for what the test is about.
func (a *authority) listen(change func(*tls.Config)) (net.Listener, *tls.Config) {
	a.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		a.t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{a.issue(nil)}, NextProtos: []string{"http/1.1"}}
	if change != nil {
		change(config)
	}
	return l, config
}
