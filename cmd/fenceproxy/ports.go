package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy"
	"github.com/fenceproxy/fenceproxy/proxy/listen"
)

// ports are the listeners; those that are off are nil.
type ports struct {
	data, admin, leases net.Listener
}

// listen opens all of them. Nothing is taken from one before it is served.
func (s *service) listen(p planned) (at ports, err error) {
	defer func() {
		if err != nil {
			at.close()
		}
	}()
	at.data, err = listen.Listen(listen.Options{
		Address: s.cfg.Listen.Address, SocketMode: os.FileMode(s.cfg.Listen.SocketMode), TLS: p.certificates, Stall: s.cfg.Listen.IdleTimeout, Log: s.log,
	})
	if err != nil {
		return at, notListening("listen.address", err)
	}
	if at.admin, err = s.listenAdmin(p.operator); err != nil {
		return at, err
	}
	at.leases, err = listenTCP("leases.address", s.cfg.Leases.Address)
	return at, err
}

// close also takes the file of a unix socket away.
func (at ports) close() {
	for _, l := range []net.Listener{at.data, at.admin, at.leases} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// listenTCP opens a listener beside the data port; an empty address is none.
func listenTCP(setting, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, notListening(setting, err)
	}
	return l, nil
}

func notListening(setting string, err error) error {
	advice := ""
	if errors.Is(err, syscall.EADDRINUSE) {
		advice = "; if another fenceproxy listens there, stop it, or choose another address"
	}
	if flag := strings.TrimSuffix(setting, ".address"); flag != "leases" {
		setting += " (or --" + flag + ")"
	}
	return &exitError{exitFailed, fmt.Errorf("%s: %w%s", setting, err, advice)}
}

func (s *service) serveData(l net.Listener) {
	s.data = proxy.NewServer(s.handler, proxy.ServerOptions{
		HeaderTimeout: s.cfg.Listen.HeaderTimeout, IdleTimeout: s.cfg.Listen.IdleTimeout, MaxHeader: int(s.cfg.Limits.MaxHeader),
	})
	s.serve(s.data, proxy.NewListener(l), "listen.address")
}

func (s *service) serveAdmin(l net.Listener, p planned, gatherer prometheus.Gatherer) {
	if l == nil {
		return
	}
	s.admin = s.newAdmin(p, gatherer)
	s.serve(s.admin, l, "admin.address")
}

func (s *service) serve(srv *http.Server, l net.Listener, setting string) {
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("%s: %w", setting, err)
		}
	}()
}
