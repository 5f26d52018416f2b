// Package listen opens the data port: a TCP address, a unix socket, or the
// socket that systemd passes, with TLS in front of it or without.
package listen

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"go.uber.org/zap"
)

// Options say where clients come in.
type Options struct {
	Address    string        // host:port or unix:/path
	SocketMode os.FileMode   // of the unix socket's file
	TLS        *Certificates // nil for none
	Stall      time.Duration // how long a client may take nothing of what is written to it (on Linux, over TCP); 0 for no end
	Log        *zap.Logger   // is told when certificates are read again
}

// Listen opens the listener. A socket that systemd has passed to this process
// is taken instead of the address.
func Listen(o Options) (net.Listener, error) {
	l, err := inherited()
	if err == nil && l == nil {
		l, err = open(o)
	}
	if err != nil {
		return nil, err
	}
	l = endStalled(l, o.Stall)
	if o.TLS != nil {
		return o.TLS.Over(l, "listen.tls", o.Log), nil
	}
	return l, nil
}

func open(o Options) (net.Listener, error) {
	if path, ok := strings.CutPrefix(o.Address, "unix:"); ok {
		return listenUnix(path, o.SocketMode)
	}
	return net.Listen("tcp", o.Address)
}

// inherited is the socket that systemd has passed (LISTEN_FDS), or nil.
func inherited() (net.Listener, error) {
	files := activation.Files(true)
	if len(files) == 0 {
		return nil, nil
	}
	defer func() {
		for _, f := range files { // FileListener has a copy of its own
			_ = f.Close()
		}
	}()
	if len(files) > 1 {
		return nil, fmt.Errorf("systemd passed %d sockets: leave one ListenStream= in the socket unit; the admin listener opens its own", len(files))
	}
	l, err := net.FileListener(files[0])
	if err != nil {
		return nil, fmt.Errorf("systemd passed %s, which cannot be listened on: %w; the socket unit must have ListenStream= and Accept=no", files[0].Name(), err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the file is systemd's
	}
	return l, nil
}
