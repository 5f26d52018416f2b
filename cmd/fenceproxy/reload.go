package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// source is where a running proxy's configuration comes from.
type source struct {
	file   string           // "" for the flags
	seen   sight            // the file, before it was read
	hangUp <-chan os.Signal // tells to load it again
}

// rememberTimeout is how long the store may take to remember new rules.
const rememberTimeout = 5 * time.Second

// reloader puts a changed configuration into force, all of it or nothing.
type reloader struct {
	source
	s     *service
	level zap.AtomicLevel
	state prometheus.Gauge

	figures prometheus.Gatherer

	// The reloading goroutine's, and others' when that has ended.
	cfg     *config.Config // in force
	planned planned        // of cfg
	tried   edition        // of the file, as it was loaded last
	inForce bool           // that is what was put into force

	failed  atomic.Pointer[string] // what is wrong with the last one; nil for nothing
	ctx     context.Context
	stopped context.CancelFunc
	done    sync.WaitGroup
}

func newReloader(src source, s *service, p planned, level zap.AtomicLevel, reg *prometheus.Registry) *reloader {
	r := &reloader{source: src, s: s, figures: reg, level: level, cfg: s.cfg, planned: p, tried: edition{sight: src.seen},
		state: prometheus.NewGauge(prometheus.GaugeOpts{Name: "fenceproxy_config_reload_success",
			Help: "1 when the configuration file, as it was when last looked at, is in force; 0 when it was refused and the one of before is."})}
	r.state.Set(1)
	reg.MustRegister(r.state)
	r.ctx, r.stopped = context.WithCancel(context.Background())
	return r
}

// start begins to reload on SIGHUP and when the file has changed. One goroutine
// sees to both, so that each knows what was loaded for the other.
func (r *reloader) start() {
	r.done.Go(func() {
		next := time.NewTimer(lookEvery) // no ticker: two looks behind a long reload would come at once
		defer next.Stop()
		for file := (watch{r.seen, r.seen}); ; {
			select {
			case <-r.ctx.Done():
				return
			case <-r.hangUp:
				r.reload("SIGHUP")
			case <-next.C:
				// A SIGHUP just behind a change comes first, and has loaded it.
				if r.file != "" && file.changed(r.file, r.tried.sight) && !(r.inForce && r.tried.same(editionOf(r.file))) {
					r.reload("the file has changed")
				}
				next.Reset(lookEvery)
			}
		}
	})
}

// stop ends it, and waits for a reload that is under way. It may be called
// twice.
func (r *reloader) stop() {
	r.stopped()
	r.done.Wait()
}

// notice is what /readyz says beside "ready".
func (r *reloader) notice() string {
	if failed := r.failed.Load(); failed != nil {
		return *failed
	}
	return ""
}

// reload loads the file and puts it into force, or says why not.
func (r *reloader) reload(why string) {
	log := r.s.log.With(zap.String("why", why))
	if r.file == "" {
		log.Warn("there is nothing to reload: the configuration comes from flags; restart with others")
		return
	}
	r.s.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	defer r.s.tell(daemon.SdNotifyReady)
	report, changed, err := r.load()
	if err != nil {
		said := fmt.Sprintf("%s: the configuration was not reloaded, the one of before is in force: %v", time.Now().Format(time.RFC3339), err)
		r.failed.Store(&said)
		r.state.Set(0)
		log.Error("the configuration was not reloaded, the one of before stays in force", zap.String("config", r.file), zap.Error(err))
		return
	}
	r.failed.Store(nil)
	r.state.Set(1)
	for _, w := range report.Warnings {
		log.Warn("configuration: " + w.Error())
	}
	log.Info("the configuration was reloaded", zap.String("config", r.file), zap.Strings("changed", changed))
}

// load reads the file and puts what it says into force. Of a pipe or a device
// nobody knows when it ends, and until then there could be no stop either; at a
// start there may be one.
func (r *reloader) load() (report config.Report, changed []string, err error) {
	r.tried, r.inForce = editionOf(r.file), false // before it is loaded: a change in between makes it another one
	if info := r.tried.info; info != nil && !info.Mode().IsRegular() {
		return report, nil, fmt.Errorf("%s is no regular file; put one there, or restart", r.file)
	}
	cfg, report := config.LoadFile(r.file, os.LookupEnv)
	p := plan(cfg, &report)
	if err = report.Err(); err == nil {
		changed, err = r.put(cfg, p)
	}
	r.inForce = err == nil
	return report, changed, err
}

// put puts a configuration into force. The order counts: what the store has to
// remember of it is durable before a write passes under it, and the gate lets
// such writes pass before they come.
func (r *reloader) put(cfg *config.Config, p planned) (changed []string, err error) {
	changed = config.Diff(r.cfg, cfg)
	if err := obstacles(r.planned, p, changed); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, rememberTimeout)
	defer cancel()
	fences := r.planned.fences() != p.fences() // after a crash nobody would know of those that are on their way
	unordered := p.unordered() || fences
	store, ok := r.s.store.Store.(tokenstore.Rememberer)
	if !ok {
		return nil, errors.New("the store takes no other rules while it is in use; restart")
	}
	err = store.Remember(ctx, tokenstore.Configuration{Rules: p.fingerprints, Epochs: p.epochs, Unordered: unordered, Fences: p.fences(), Settle: longestSettle(cfg)})
	if refused := (*tokenstore.ChangedRulesError)(nil); errors.As(err, &refused) {
		err = errors.New(keysOtherwise(refused.Rules)) // as they were under a configuration before the one in force
	}
	if err != nil {
		return nil, err
	}
	r.s.gate.Change(gateOptions(cfg, r.s.store.settle, unordered))
	r.level.SetLevel(logLevel(cfg.Log))
	book := r.s.rulebook(cfg, p)
	book.FencesOtherwise = fences
	// Leases first: one that is granted is of the epoch that its holder's writes
	// have now, or of a higher one.
	inForce := r.s.leases.use(r.s, p)
	r.s.handler.Switch(book)
	inForce()
	r.s.operate(p, r.figures)
	r.cfg, r.planned = cfg, p
	return changed, nil
}

// reloadable reports whether a setting can change without a restart.
func reloadable(setting string) bool {
	switch setting {
	case "upstream.url", "limits.max_header", "log.format":
		return false
	case "store.accept_changed_rules": // asked at a start only
		return true
	}
	for _, fixed := range []string{"listen", "admin", "store", "audit", "leases", "tracing"} {
		if setting == fixed || strings.HasPrefix(setting, fixed+".") {
			return false
		}
	}
	return true
}

func gateOptions(cfg *config.Config, settle time.Duration, unordered bool) gate.Options {
	return gate.Options{Settle: settle, Unordered: unordered, MaxWaiting: cfg.Limits.MaxWaiting, MaxWaitingPerKey: cfg.Limits.MaxWaitingPerKey, MaxKeys: int64(cfg.Limits.MaxKeys)}
}
