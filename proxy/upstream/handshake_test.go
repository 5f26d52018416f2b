package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// listenTLS is listen over TLS.
func listenTLS(t *testing.T, script func(*wire)) (u *Upstream, event chan struct{}, done func()) {
	t.Helper()
	a := newAuthority(t)
	l, config := a.listen(nil)
	event, done = play(t, tls.NewListener(l, config), script)
	return a.upstream(l.Addr().String(), 0, nil), event, done
}

// TestOutcomeTLS plays the table of rule 10 once more, over TLS.
func TestOutcomeTLS(t *testing.T) { playRows(t, outcomeRows(), listenTLS) }

// TestHandshakeFails: whatever goes wrong before the first byte of the request,
// nothing was sent, and the error tells what to look at.
func TestHandshakeFails(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	for name, row := range map[string]struct {
		server func(*tls.Config)
		client func(*TLS)
		plain  func(net.Conn) // instead of TLS
		want   Reason
		says   string
	}{
		"closed at once": {plain: func(c net.Conn) {}, want: ReasonTLS, says: "speaks TLS 1.2 or later"},
		"reset":          {plain: func(c net.Conn) { c.Read(make([]byte, 1)); c.(*net.TCPConn).SetLinger(0) }, want: ReasonTLS, says: "reset"},
		"clear text":     {plain: func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); io.Copy(io.Discard, c) }, want: ReasonTLS, says: "begins with http://"},
		"closed within":  {plain: func(c net.Conn) { c.Read(make([]byte, 1)); io.WriteString(c, "\x16\x03\x03\x00") }, want: ReasonTLS, says: "speaks TLS 1.2 or later"},
		"silence":        {plain: func(c net.Conn) { io.Copy(io.Discard, c) }, want: ReasonConnectTimeout, says: "see that it is running"},
		"another name": {server: func(c *tls.Config) {
			c.Certificates = []tls.Certificate{a.issue(func(x *x509.Certificate) { x.IPAddresses, x.DNSNames = nil, []string{"api.example"} })}
		}, want: ReasonTLS, says: "upstream.tls.server_name"},
		"another name asked for": {client: func(t *TLS) { t.ServerName = "api.example" }, want: ReasonTLS, says: "upstream.tls.server_name"},
		"unknown authority":      {client: func(t *TLS) { t.Roots = other.pool() }, want: ReasonTLS, says: "upstream.tls.ca_file"},
		"the system's roots":     {client: func(t *TLS) { t.Roots = nil }, want: ReasonTLS, says: "upstream.tls.ca_file"},
		"expired": {server: func(c *tls.Config) {
			c.Certificates = []tls.Certificate{a.issue(func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Hour) })}
		}, want: ReasonTLS, says: "renew"},
		"TLS 1.1":                      {server: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, want: ReasonTLS, says: "the upstream refuses"},
		"another protocol":             {server: func(c *tls.Config) { c.NextProtos = []string{"x"} }, want: ReasonTLS, says: "HTTP/1.1"},
		"a certificate is asked (1.2)": {server: func(c *tls.Config) { c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12 }, want: ReasonTLS, says: "upstream.tls.cert_file"},
	} {
		t.Run(name, func(t *testing.T) {
			l, config := a.listen(row.server)
			_, done := play(t, l, func(w *wire) {
				if row.plain != nil {
					row.plain(w.Conn)
					w.Close()
					return
				}
				c := tls.Server(w.Conn, config)
				if b, err := io.ReadAll(c); err == nil || len(b) > 0 {
					t.Errorf("the upstream read %q (%v), want a failed handshake", b, err)
				}
			})
			u := a.upstream(l.Addr().String(), 0, row.client)
			if row.want == ReasonConnectTimeout {
				u.dial = (&dialer{network: "tcp", addr: u.addr, timeout: 50 * time.Millisecond, tls: TLS{}.config("127.0.0.1")}).dial
			}
			r := put()
			r.MaySend = func() bool { t.Error("asked for leave without a connection"); return true }
			res := exchangeOnce(t, context.Background(), u, r)
			if res.outcome != notSent(row.want) || !strings.Contains(res.err.Error(), row.says) {
				t.Errorf("outcome %v, error %v; want not-sent (%s), and to be told %q", res.outcome, res.err, row.want, row.says)
			}
			done()
		})
	}
}

// With TLS 1.3 the upstream refuses our certificate when the request is under
// way.
func TestCertificateRefusedLate(t *testing.T) {
	a := newAuthority(t)
	l, config := a.listen(func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })
	_, done := play(t, l, func(w *wire) {
		if err := tls.Server(w.Conn, config).Handshake(); err == nil {
			t.Error("the handshake succeeded")
		}
	})
	res := exchangeOnce(t, context.Background(), a.upstream(l.Addr().String(), 0, nil), put())
	if res.outcome != unsettled(ReasonTLS) || !strings.Contains(res.err.Error(), "upstream.tls.cert_file") {
		t.Errorf("outcome %v, error %v; want unsettled (tls)", res.outcome, res.err)
	}
	done()
}

// The upstream is asked for by its name, shown our certificate, and offered
// HTTP/2 and HTTP/1.1.
func TestHandshake(t *testing.T) {
	a := newAuthority(t)
	mine := a.issue(func(x *x509.Certificate) { x.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	hello := make(chan *tls.ClientHelloInfo, 1)
	l, config := a.listen(func(c *tls.Config) {
		c.Certificates = []tls.Certificate{a.issue(func(x *x509.Certificate) { x.DNSNames = []string{"api.example"} })}
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, a.pool()
		c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) { hello <- h; return nil, nil }
	})
	_, done := play(t, tls.NewListener(l, config), func(w *wire) {
		w.request()
		state := w.Conn.(*tls.Conn).ConnectionState()
		if got := state.PeerCertificates; len(got) != 1 || !bytes.Equal(got[0].Raw, mine.Certificate[0]) {
			t.Errorf("the client showed %v", got)
		}
		if state.NegotiatedProtocol != "http/1.1" {
			t.Errorf("protocol %q", state.NegotiatedProtocol)
		}
		w.say(ok)
	})
	u := a.upstream(l.Addr().String(), 0, func(t *TLS) { t.Certificate, t.ServerName = &mine, "api.example" })
	if res := exchangeOnce(t, context.Background(), u, put()); res.outcome != settled {
		t.Errorf("%v (%v)", res.outcome, res.err)
	}
	done()
	if h := <-hello; h.ServerName != "api.example" || !slices.Equal(h.SupportedProtos, []string{"h2", "http/1.1"}) || h.SupportedVersions[len(h.SupportedVersions)-1] < tls.VersionTLS12 {
		t.Errorf("asked for %q, %q, versions %x", h.ServerName, h.SupportedProtos, h.SupportedVersions)
	}
}
