package listen

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Files are the PEM files of TLS.
type Files struct {
	Cert     string
	Key      string
	ClientCA string // "" asks clients for no certificate
}

// FileError says which of the files cannot be used.
type FileError struct {
	Setting string // cert_file, key_file or client_ca_file
	Err     error
}

func (e *FileError) Error() string { return e.Setting + ": " + e.Err.Error() }
func (e *FileError) Unwrap() error { return e.Err }

// lookAgain is how often the files are looked at, at most.
const lookAgain = time.Second

// Certificates are what the files hold. They are looked at when a client
// comes, at most once in lookAgain, and read again when one of them has
// changed: no goroutine, and no watch that a swapped directory (as Kubernetes
// has it) could be missed by. New ones that cannot be used leave the old ones.
type Certificates struct {
	files   Files
	setting string // their place in the configuration, for the log
	log     *zap.Logger

	mu      sync.Mutex // guards what follows
	current *tls.Config
	expires time.Time
	lapsed  bool          // expires is over, and that was told
	seen    []os.FileInfo // as they were before they were read
	looked  time.Time
}

// NewCertificates reads the files; an error is a *FileError where one of them
// is to blame.
func NewCertificates(f Files) (*Certificates, error) {
	c := &Certificates{files: f, log: zap.NewNop(), looked: time.Now()}
	seen, err := c.stat()
	if err != nil {
		return nil, err
	}
	c.seen = seen
	if err := c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

// Expires is when the certificate is not valid any more.
func (c *Certificates) Expires() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expires
}

// Over lets nothing but TLS through to l, and tells log of every reading of the
// files of setting. It is called once.
func (c *Certificates) Over(l net.Listener, setting string, log *zap.Logger) net.Listener {
	c.setting, c.log = setting, log
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now(), nil },
	})
}

// now is the configuration for a client that comes now.
func (c *Certificates) now() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= lookAgain {
		c.looked = time.Now()
		c.look()
	}
	c.tellLapsed()
	return c.current
}

// tellLapsed tells once that clients will refuse the certificate, which nobody
// else on this side would notice: a handshake that a client breaks off is the
// client's affair.
func (c *Certificates) tellLapsed() {
	if c.lapsed || !time.Now().After(c.expires) {
		return
	}
	c.lapsed = true
	c.log.Warn(c.setting+": the certificate has expired, and clients will refuse it; renew it, the new files are read without a restart", zap.Time("expires", c.expires))
}

// look reads the files again if they have changed. A pair of which only one is
// new yet does not fit, and is read again when the other is. The caller holds
// the lock: clients that come meanwhile wait for the new ones.
func (c *Certificates) look() {
	seen, err := c.stat()
	if err == nil && same(seen, c.seen) {
		return
	}
	if err == nil {
		// Taken before the reading: a change behind it is seen the next time.
		c.seen = seen
		err = c.read()
	} else if c.seen == nil {
		return // told already
	} else {
		c.seen = nil
	}
	if err != nil {
		c.log.Warn(c.setting+": the new files cannot be used, the old certificate stays", zap.Error(err), zap.Time("expires", c.expires))
		return
	}
	c.log.Info(c.setting+": the certificate was read again", zap.Time("expires", c.expires))
}

// stat follows links: a link that is turned to another file is a change.
func (c *Certificates) stat() ([]os.FileInfo, error) {
	var infos []os.FileInfo
	for _, f := range c.named() {
		info, err := os.Stat(f.path)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New(f.path + " is no file") // a pipe would be waited for
		}
		if err != nil {
			return nil, &FileError{f.setting, err}
		}
		infos = append(infos, info)
	}
	return infos, nil
}

type namedFile struct{ setting, path string }

func (c *Certificates) named() []namedFile {
	all := []namedFile{{"cert_file", c.files.Cert}, {"key_file", c.files.Key}}
	if c.files.ClientCA != "" {
		all = append(all, namedFile{"client_ca_file", c.files.ClientCA})
	}
	return all
}

func same(a, b []os.FileInfo) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()) {
			return false
		}
	}
	return true
}

// read makes the configuration anew. A tls.Config in use is never changed.
func (c *Certificates) read() error {
	cert, err := readPair(c.files)
	if err != nil {
		return err
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{cert},
	}
	if c.files.ClientCA != "" {
		if config.ClientCAs, err = readAuthorities(c.files.ClientCA); err != nil {
			return err
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		// A ticket would let a client in whose authority is no more trusted.
		config.SessionTicketsDisabled = true
	}
	c.current, c.expires, c.lapsed = config, cert.Leaf.NotAfter, false
	return nil
}

// readPair reads the certificate and its key, and tells which of them is bad.
func readPair(f Files) (tls.Certificate, error) {
	var none tls.Certificate
	certPEM, err := os.ReadFile(f.Cert)
	if err != nil {
		return none, &FileError{"cert_file", err}
	}
	if block, _ := pem.Decode(certPEM); block == nil || block.Type != "CERTIFICATE" {
		return none, &FileError{"cert_file", fmt.Errorf("%s holds no certificate in PEM form", f.Cert)}
	}
	keyPEM, err := os.ReadFile(f.Key)
	if err != nil {
		return none, &FileError{"key_file", err}
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return none, &FileError{"key_file", fmt.Errorf("%s and %s do not make a pair: %w", f.Key, f.Cert, err)}
	}
	if cert.Leaf == nil { // as with GODEBUG=x509keypairleaf=0
		if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
			return none, &FileError{"cert_file", err}
		}
	}
	return cert, nil
}

func readAuthorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &FileError{"client_ca_file", err}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, &FileError{"client_ca_file", fmt.Errorf("%s holds no certificate in PEM form", path)}
	}
	return pool, nil
}
