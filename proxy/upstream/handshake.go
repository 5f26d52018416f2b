package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// TLS is how an https upstream is told from an impostor, and what we show it.
type TLS struct {
	// Roots are the authorities that the upstream's certificate has to come
	// from; nil means the system's.
	Roots *x509.CertPool
	// Certificate is shown to an upstream that asks for one; nil for none.
	Certificate *tls.Certificate
	// ServerName is asked for (SNI) and has to stand in the certificate; ""
	// means the URL's host.
	ServerName string
}

// config is for connections that offer the given protocols (ALPN), and no
// others: an upstream that wants to speak anything else fails the handshake.
func (t TLS) config(host string, protocols ...string) *tls.Config {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            t.Roots,
		ServerName:         host,
		NextProtos:         protocols,
		ClientSessionCache: tls.NewLRUClientSessionCache(0), // Go never sends early data, which can be replayed
	}
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	if t.Certificate != nil {
		c.Certificates = []tls.Certificate{*t.Certificate}
	}
	return c
}

// handshakeError is a TLS handshake that failed: nothing of a request was sent.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// handshake makes the connection a secure one, or closes it.
func handshake(ctx context.Context, c net.Conn, config *tls.Config) (net.Conn, error) {
	s := newSecure(c, config)
	if err := s.tls.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, &handshakeError{err}
	}
	s.begin()
	return s, nil
}

// tlsHint tells what to look at after a failure of TLS.
func tlsHint(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		clear     tls.RecordHeaderError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &authority):
		return "set upstream.tls.ca_file to the authority that signed the upstream's certificate"
	case errors.As(err, &name):
		return "set upstream.tls.server_name to a name in the upstream's certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the upstream's certificate, and see that both clocks are right"
	case errors.As(err, &invalid):
		return "the upstream needs another certificate"
	case errors.As(err, &clear):
		return "see that the upstream speaks TLS there; if it does not, upstream.url begins with http://"
	case errors.As(err, &op) && op.Op == alertOp:
		return "the upstream refuses: see upstream.tls.cert_file and server_name, and that it speaks HTTP/1.1 or HTTP/2 over TLS 1.2 or later"
	}
	return "see that the upstream speaks TLS 1.2 or later there"
}

// The operations by which crypto/tls tells alerts in a net.OpError: the
// upstream's, and ours about what it sent.
const (
	alertOp    = "remote error"
	ownAlertOp = "local error"
)
