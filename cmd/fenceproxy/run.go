package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy"
	"github.com/fenceproxy/fenceproxy/proxy/admin"
	"github.com/fenceproxy/fenceproxy/proxy/gate"
)

// service is a running proxy.
type service struct {
	cfg      *config.Config // as it was started; a reload's is in reloader
	log      *zap.Logger
	reload   *reloader
	store    openStore
	gate     *gate.Gate
	handler  *proxy.Handler // of data
	data     *http.Server
	admin    *http.Server                 // nil when it is off
	operator atomic.Pointer[http.Handler] // of admin, for the rules in force
	leases   *leases                      // nil when they are off, and none is left
	audit    *admin.Audit
	failed   chan error // a listener that broke, a store that is of no more use
}

// run serves until a signal comes, the store fails, or a listener breaks.
func run(src source, cfg *config.Config, p planned, signals <-chan os.Signal) error {
	log, level := newLog(cfg.Log)
	defer func() { _ = log.Sync() }()
	defer runtime.KeepAlive(newBallast())
	tracer, flush, err := startTracing(cfg.Tracing, log)
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("tracing: %w", err)}
	}
	defer flush()
	s, sig, err := untilStopped(signals, func(ctx context.Context) (*service, error) {
		return start(ctx, src, cfg, p, log, level, tracer)
	})
	switch {
	case err != nil && sig == nil:
		return err
	case err != nil:
		log.Info("stopped before it was ready", zap.Stringer("signal", sig), zap.Error(err))
		return nil
	}
	defer s.reload.stop()
	if sig != nil {
		return s.stop(sig, signals)
	}
	select {
	case err := <-s.failed:
		s.end()
		return &exitError{exitFailed, err}
	case <-s.store.failed:
		// Nobody knows what is on the disk: nothing may be admitted on it, and
		// the next life begins with a quarantine (rule 6).
		s.end()
		return &exitError{exitFailed, s.store.err()}
	case sig := <-signals:
		return s.stop(sig, signals)
	}
}

// start opens, in this order: the listeners, the store, the gate over it, the
// handler, and only then anything that lets a request in. The store comes after
// the listeners: opening it takes its clean-stop marker away, and an address
// that is in use must not cost the next start a quarantine.
func start(ctx context.Context, src source, cfg *config.Config, p planned, log *zap.Logger, level zap.AtomicLevel, tracer trace.Tracer) (_ *service, err error) {
	s := &service{cfg: cfg, log: log, failed: make(chan error, 3)}
	at, err := s.listen(p)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			at.close()
		}
	}()
	if s.audit, err = openAudit(cfg.Audit); err != nil {
		return nil, &exitError{exitFailed, fmt.Errorf("audit: %w", err)}
	}
	registry := newRegistry()
	if s.store, err = open(ctx, cfg, p, newStoreFigures(registry), log); err != nil {
		return nil, err
	}
	if s.gate, err = gate.New(s.store.Store, gateOptions(cfg, s.store.settle, s.store.unordered)); err != nil {
		return nil, &exitError{exitFailed, err}
	}
	s.register(registry)
	s.handler = s.newHandler(p, registry, tracer)
	if s.store.unfenced {
		s.handler.CountUnfenced(s.store.settle)
	}
	if at.leases != nil || s.hasLeases() {
		if s.leases, err = s.newLeases(p, registry); err != nil {
			s.gate.Stop()
			if s.store.unfenced {
				s.store.leaveUnfenced() // as it was found
			}
			_ = s.store.Close(!s.store.Recovered()) // nothing was sent
			return nil, err
		}
	}
	s.reload = newReloader(src, s, p, level, registry)
	s.serveData(at.data)
	s.serveAdmin(at.admin, p, registry)
	if at.leases != nil {
		s.leases.serve(s, p, at.leases)
	}
	s.tellReady(at, len(p.rules))
	s.reload.start()
	s.tell(daemon.SdNotifyReady)
	return s, nil
}

// stop closes, in this order: the ways in for new writes, the listeners and what
// no fence holds up, and last the store (rule 12). It gets its marker only when
// everything is over; a second signal, or the end of shutdown_timeout, ends the
// wait without.
func (s *service) stop(sig os.Signal, signals <-chan os.Signal) error {
	s.log.Info("stopping", zap.Stringer("signal", sig))
	s.reload.stop()
	ctx, cancel := s.patience(signals)
	defer cancel()
	s.gate.Stop()
	s.leases.stop()
	s.tell(daemon.SdNotifyStopping)
	s.tellWait()
	down := s.shutDown(ctx)
	idle := s.gate.Idle(ctx) == nil
	// What is left is no write of the fence's: streams that nobody ends, uploads
	// that were not admitted. They get a moment.
	select {
	case <-down:
	case <-time.After(farewell):
	}
	s.close()
	older := s.handler.AwaitOlder(ctx) != nil // close has ended them
	s.reload.planned.upstream.Close()         // else the kernel would reset what is idle there
	if !idle || older {
		err := s.unclean(context.Cause(ctx), older)
		_ = s.store.Close(false)
		return err
	}
	unfenced := s.leavesUnfenced()
	if unfenced {
		s.leaveUnfenced()
	}
	if err := s.store.Close(true); err != nil {
		return &exitError{exitFailed, fmt.Errorf("closing the store: %w", err)}
	}
	if !unfenced {
		s.log.Info("stopped, everything is settled")
	}
	return nil
}

// end closes everything at once, without the clean marker. The process ends
// behind it.
func (s *service) end() {
	s.gate.Stop()
	s.close()
	_ = s.store.Close(false)
}

// close closes the listeners and every connection.
func (s *service) close() {
	_ = s.data.Close()
	if s.admin != nil {
		_ = s.admin.Close()
	}
	s.leases.close()
}
