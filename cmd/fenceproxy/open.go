package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/embedded"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// openTimeout is how long a shared store may take to let a proxy in. Where the
// keys of a rule were changed on purpose it is linger longer.
const openTimeout = 30 * time.Second

// openStore is a store and what only this command wants to know of it.
type openStore struct {
	tokenstore.Store
	changed []string
	settle  time.Duration // the longest of all rules, of before a crash too

	keys      func() int64    // nil where nobody counts them
	failed    <-chan struct{} // nil for a store that cannot fail for good
	err       func() error
	unordered bool           // writes may pass, or might have before a crash, that no record tells of
	session   *session.Store // nil for a store of one proxy

	unfenced      bool   // writes that no rule fences may be on their way since the last life
	leaveUnfenced func() // notes that some are for the next; nil where nothing can
}

// open opens the one store of the configuration.
func open(ctx context.Context, cfg *config.Config, p planned, figures *storeFigures, log *zap.Logger) (openStore, error) {
	switch {
	case cfg.Store.Shared():
		return openShared(ctx, cfg, p, figures, log)
	case cfg.Store.Memory != nil:
		log.Warn("store.memory forgets every token at exit: it is for trying out")
		m := memory.New()
		// Or the first reload could make other keys than the start did.
		if err := m.Remember(ctx, tokenstore.Configuration{Rules: p.fingerprints, Epochs: p.epochs, Unordered: p.unordered(), Settle: longestSettle(cfg)}); err != nil {
			return openStore{}, notOpened("store.memory", err)
		}
		return openStore{Store: m, keys: m.Keys, settle: longestSettle(cfg), unordered: p.unordered()}, nil
	}
	e := cfg.Store.Embedded
	s, err := embedded.Open(embedded.Options{Path: e.Path, Create: e.Create, Rules: p.fingerprints, Epochs: p.epochs,
		AcceptChanged: cfg.Store.AcceptChangedRules, Unordered: p.unordered(), Fences: p.fences(), Settle: longestSettle(cfg), Logger: log})
	if err != nil {
		return openStore{}, notOpened("store.embedded", err)
	}
	return openStore{Store: s, keys: s.Keys, failed: s.Failed(), err: s.Err, changed: s.Changed(), settle: s.Settle(), unordered: s.Unordered(),
		unfenced: s.Unfenced(), leaveUnfenced: s.LeaveUnfenced}, nil
}

// openShared begins a session in a store that several proxies share.
func openShared(ctx context.Context, cfg *config.Config, p planned, figures *storeFigures, log *zap.Logger) (openStore, error) {
	linger := max(cfg.Store.Linger, longestSettle(cfg))
	patience := openTimeout
	if len(cfg.Store.AcceptChangedRules) > 0 {
		patience += cfg.Store.SessionTTL + linger
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	engine := engineOf(cfg, p, log)
	backend, err := engine.open(ctx)
	if err != nil {
		return openStore{}, notOpened(engine.setting, err)
	}
	s, err := session.Open(ctx, backend, session.Options{
		TTL: cfg.Store.SessionTTL, Margin: cfg.Store.Margin, Linger: linger,
		Rules: p.fingerprints, Epochs: p.epochs, AcceptChanged: cfg.Store.AcceptChangedRules,
		Observe: figures.observer(), Logger: log,
	})
	if err != nil {
		return openStore{}, notOpened(engine.setting, err)
	}
	figures.follow(s)
	return openStore{Store: s, changed: s.Changed(), settle: longestSettle(cfg), unordered: p.unordered(), session: s}, nil
}

// notOpened tells what the configuration is to blame for from the rest.
func notOpened(setting string, err error) error {
	code := exitFailed
	changed, epoch, others := (*tokenstore.ChangedRulesError)(nil), (*tokenstore.EpochError)(nil), (*session.OthersError)(nil)
	if errors.As(err, &changed) || errors.As(err, &epoch) || errors.As(err, &others) {
		code = exitUsage
	}
	advice := ""
	if setting == "store.embedded" && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		advice = fmt.Sprintf("; the user that runs the proxy (uid %d) must be able to write there", os.Getuid())
	}
	return &exitError{code, fmt.Errorf("%s: %w%s", setting, err, advice)}
}

// longestSettle is how long a write of before a crash may still be applied.
func longestSettle(cfg *config.Config) time.Duration {
	settle := cfg.Upstream.Settle
	for i := range cfg.Rules {
		settle = max(settle, cfg.Policy(&cfg.Rules[i]).Settle)
	}
	return settle
}
