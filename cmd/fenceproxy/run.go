package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy"
	"github.com/fenceproxy/fenceproxy/proxy/admin"
	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/listen"
	"github.com/fenceproxy/fenceproxy/proxy/route"
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
	leases   *leases                      // nil when they are off
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
	s, err := start(src, cfg, p, log, level, tracer)
	if err != nil {
		return err
	}
	defer s.reload.stop()
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
		log.Info("stopping", zap.Stringer("signal", sig))
		return s.stop(signals)
	}
}

// start opens the listeners, then the store, and begins to serve. The store
// comes second: opening it takes its clean-stop marker away, and an address
// that is in use must not cost the next start a quarantine.
func start(src source, cfg *config.Config, p planned, log *zap.Logger, level zap.AtomicLevel, tracer trace.Tracer) (_ *service, err error) {
	s := &service{cfg: cfg, log: log, failed: make(chan error, 3)}
	data, err := listen.Listen(listen.Options{Address: cfg.Listen.Address, SocketMode: os.FileMode(cfg.Listen.SocketMode), TLS: p.certificates, Stall: cfg.Listen.IdleTimeout, Log: log})
	if err != nil {
		return nil, notListening("listen.address", err)
	}
	defer func() {
		if err != nil {
			_ = data.Close() // takes the file of a unix socket away
		}
	}()
	operator, err := s.listenAdmin(p.operator)
	if err != nil {
		return nil, err
	}
	holders, err := listenTCP("leases.address", cfg.Leases.Address)
	if err != nil {
		return nil, err
	}
	if s.audit, err = openAudit(cfg.Audit); err != nil {
		return nil, &exitError{exitFailed, fmt.Errorf("audit: %w", err)}
	}
	registry := newRegistry()
	if s.store, err = open(context.Background(), cfg, p, newStoreFigures(registry), log); err != nil {
		return nil, err
	}
	s.gate, err = gate.New(s.store.Store, gateOptions(cfg, s.store.settle, s.store.unordered))
	if err != nil {
		return nil, &exitError{exitFailed, err}
	}
	s.register(registry)
	s.handler = s.newHandler(p, registry, tracer)
	if holders != nil {
		if s.leases, err = s.newLeases(p, registry); err != nil {
			s.gate.Stop()
			_ = s.store.Close(!s.store.Recovered()) // nothing was sent
			return nil, err
		}
	}
	s.reload = newReloader(src, s, p, level, registry)
	s.data = proxy.NewServer(s.handler, proxy.ServerOptions{
		HeaderTimeout: cfg.Listen.HeaderTimeout, IdleTimeout: cfg.Listen.IdleTimeout, MaxHeader: int(cfg.Limits.MaxHeader),
	})
	s.serve(s.data, proxy.NewListener(data), "listen.address")
	ready := []zap.Field{zap.String("version", version()), zap.Stringer("listen", data.Addr()), zap.String("upstream", cfg.Upstream.URL),
		zap.Int("rules", len(p.rules)), zap.Bool("quarantine", s.store.Recovered())}
	if operator != nil {
		s.admin = s.newAdmin(p, registry)
		s.serve(s.admin, operator, "admin.address")
		ready = append(ready, zap.Stringer("admin", operator.Addr()))
	}
	if s.leases != nil {
		s.leases.serve(s, p, holders)
		ready = append(ready, zap.Stringer("leases", holders.Addr()))
	}
	if s.store.Recovered() {
		settle := s.store.settle
		held := "newer tokens wait until the settle time is over; the token that a key has goes on at once where nothing older was in flight"
		if s.store.unordered {
			held = "every write with a token waits until the settle time is over, since some may have passed without one; a clean stop ends this, unless a rule has token: optional or mode: observe"
		}
		log.Warn("the last stop was not clean: writes of before may still land, so "+held,
			zap.Duration("settle", settle), zap.Time("until", time.Now().Add(settle)))
	}
	log.Info("ready", ready...)
	s.reload.start()
	s.tell(daemon.SdNotifyReady)
	return s, nil
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

// tell tells systemd how far we are, where it has asked (NOTIFY_SOCKET).
func (s *service) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("systemd was not told", zap.String("state", state), zap.Error(err))
	}
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

func (s *service) newHandler(p planned, reg prometheus.Registerer, tracer trace.Tracer) *proxy.Handler {
	return proxy.NewHandler(proxy.Options{
		Rulebook: s.rulebook(s.cfg, p), Gate: s.gate, BodyTimeout: s.cfg.Listen.HeaderTimeout, ReadTimeout: s.cfg.Listen.IdleTimeout,
		Metrics: proxy.NewMetrics(reg, s.gate), Log: s.log, Tracer: tracer,
	})
}

// rulebook is what a reload replaces of the handler.
func (s *service) rulebook(cfg *config.Config, p planned) proxy.Rulebook {
	for i := range p.rules {
		p.rules[i].Suspect = slices.Contains(s.store.changed, p.rules[i].Name)
	}
	return rulebook(cfg, p)
}

func rulebook(cfg *config.Config, p planned) proxy.Rulebook {
	return proxy.Rulebook{
		Table: p.table, Rules: p.rules, Upstream: p.upstream,
		ForwardUnmatched: cfg.UnmatchedWrites == config.Forward, ResponseTimeout: cfg.Upstream.ResponseTimeout, Settle: cfg.Upstream.Settle,
		MaxBodyBuffer: int64(cfg.Limits.MaxBodyBuffer), MaxBuffered: int64(cfg.Limits.MaxBuffered), AccessLog: cfg.Log.Access,
	}
}

// newRegistry has the figures of Go itself.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// register adds the figures of the store.
func (s *service) register(reg *prometheus.Registry) {
	if s.store.keys != nil {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "fenceproxy_keys_stored", Help: "Keys that have a record in the store."},
			func() float64 { return float64(s.store.keys()) }))
	}
	reg.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "fenceproxy_log_lines_dropped_total", Help: "Lines of the log that were dropped, since nobody read them."},
			func() float64 { return float64(standardError.lost()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "fenceproxy_store_up", Help: "1 when the store answers, else 0."},
			func() float64 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				if s.storeAnswers(ctx) != nil {
					return 0
				}
				return 1
			}))
}

// ready tells why no write can be admitted.
func (s *service) ready(ctx context.Context) error {
	if s.gate.Stopping() {
		return errors.New("stopping")
	}
	return s.storeAnswers(ctx)
}

// storeAnswers asks for a key that no rule can make. A shared store answers a
// proxy whose session is over, too, and that admits nothing.
func (s *service) storeAnswers(ctx context.Context) error {
	if s.store.session != nil && s.store.session.Remaining() <= 0 {
		return errors.New("the session with the shared store is over")
	}
	_, _, err := s.store.Load(ctx, "%")
	return err
}

func (s *service) serve(srv *http.Server, l net.Listener, setting string) {
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("%s: %w", setting, err)
		}
	}()
}

// farewell is what is left to requests that no fence touches once everything
// fenced is over.
const farewell = time.Second

// stop admits nothing any more and waits until everything is over (rule 12).
// Only then the store gets its marker; a second signal, or the end of
// shutdown_timeout, ends the wait without.
func (s *service) stop(signals <-chan os.Signal) error {
	s.reload.stop()
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.reload.cfg.ShutdownTimeout, errors.New("shutdown_timeout is over"))
	defer cancel()
	ctx, hurry := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-signals:
			hurry(errors.New("a second signal came"))
		case <-ctx.Done():
		}
	}()
	s.gate.Stop()
	s.leases.stop()
	s.tell(daemon.SdNotifyStopping)
	s.tellWait()
	down := make(chan struct{})
	go func() {
		defer close(down)
		if s.data.Shutdown(ctx) == nil {
			s.handler.WaitTunnels() // Shutdown does not know them
		}
	}()
	idle := s.gate.Idle(ctx) == nil
	// What is left is no write of the fence's: streams that nobody ends, uploads
	// that were not admitted. They get a moment.
	select {
	case <-down:
	case <-time.After(farewell):
	}
	s.close()
	older := s.handler.AwaitOlder(ctx) != nil // close has ended them
	if !idle || older {
		c := s.gate.Counts()
		_ = s.store.Close(false)
		return &exitError{exitBusy, fmt.Errorf("stopped without the clean marker: %w, with %d writes in flight, %d unsettled, quarantine %v, writes of before a reload %v; the next start quarantines its keys for the settle time",
			context.Cause(ctx), c.InFlight, c.Unsettled, c.Quarantine, older)}
	}
	if err := s.store.Close(true); err != nil {
		return &exitError{exitFailed, fmt.Errorf("closing the store: %w", err)}
	}
	s.log.Info("stopped, everything is settled")
	return nil
}

// tellWait says what the stop is waiting for, and what would end it sooner.
func (s *service) tellWait() {
	c, older := s.gate.Counts(), s.handler.HasOlder()
	if c.InFlight == 0 && c.Unsettled == 0 && !c.Quarantine && !older {
		return
	}
	fields := []zap.Field{zap.Int64("in_flight", c.InFlight), zap.Int64("unsettled", c.Unsettled), zap.Bool("quarantine", c.Quarantine), zap.Bool("before_reload", older)}
	if until := s.gate.SettledBy(); !until.IsZero() {
		fields = append(fields, zap.Time("until", until))
	}
	s.log.Info("the stop waits until writes in flight, and those of before a reload, are answered, and what is unsettled or quarantined is over; a second signal, or the end of shutdown_timeout, ends it unclean (exit code 3)",
		append(fields, zap.Duration("shutdown_timeout", s.reload.cfg.ShutdownTimeout))...)
}

// settingOf is the configuration's path of what a rule error is about.
func settingOf(e *route.RuleError) string {
	if e.Rule < 0 {
		return "fencing." + e.Setting
	}
	return fmt.Sprintf("rules[%d].%s", e.Rule, e.Setting)
}
