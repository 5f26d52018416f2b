package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"
)

// dialer makes connections to one place. What it does comes before the first
// byte of a request: whatever fails here has sent nothing.
type dialer struct {
	network, addr string
	timeout       time.Duration // for a connection and its TLS handshake together
	tls           *tls.Config   // nil for clear text
}

// place is where a URL points to: what is dialed, and what stands in a Host
// header that has to name it.
func place(at *url.URL) (network, addr, host string) {
	if at.Scheme == schemeUnix {
		return "unix", at.Path, "localhost" // a path is no host; servers behind a socket expect this
	}
	port := at.Port()
	switch {
	case port != "":
	case at.Scheme == schemeHTTPS:
		port = "443"
	default:
		port = "80"
	}
	return "tcp", net.JoinHostPort(at.Hostname(), port), at.Host
}

// String names the place in errors.
func (d *dialer) String() string {
	if d.network == "unix" {
		return "unix:" + d.addr
	}
	return d.addr
}

func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	c, err := d.connect(ctx)
	if err == nil && d.tls != nil {
		c, err = handshake(ctx, c, d.tls)
	}
	if err == nil {
		dropAtEnd(c)
	}
	return c, err
}

// connect waits for a place in the backlog of a unix socket, as the kernel does
// by itself for TCP.
func (d *dialer) connect(ctx context.Context) (net.Conn, error) {
	const pause = 5 * time.Millisecond
	full := false
	for {
		c, err := new(net.Dialer).DialContext(ctx, d.network, d.addr)
		if d.network != "unix" || !errors.Is(err, syscall.EAGAIN) {
			// Asked of the error: dialing compares the clock with ctx's deadline by
			// itself, and may so end before ctx has.
			if full && isTimeout(err) {
				return nil, fmt.Errorf("its backlog stayed full: %w", os.ErrDeadlineExceeded)
			}
			return c, err
		}
		full = true
		select {
		case <-ctx.Done(): // the next attempt fails
		case <-time.After(pause):
		}
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// dialReason names the reason of an error of dial; ctx is the request's own.
func dialReason(ctx context.Context, err error) Reason {
	var he *handshakeError
	switch {
	case ctx.Err() != nil:
		return ReasonCanceled
	case isTimeout(err):
		return ReasonConnectTimeout
	case errors.As(err, &he):
		return ReasonTLS
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT): // of a unix socket
		return ReasonRefused
	}
	return ReasonUnreachable
}
