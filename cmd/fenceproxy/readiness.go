package main

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/proxy/admin"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// ready tells why no write can be admitted.
func (s *service) ready(ctx context.Context) *admin.NotReady {
	if s.gate.Stopping() {
		return &admin.NotReady{Why: "stopping"}
	}
	return s.storeAnswers(ctx)
}

// storeAnswers asks for a key that no rule can make. A shared store answers a
// proxy whose session is over, too, and that admits nothing.
func (s *service) storeAnswers(ctx context.Context) *admin.NotReady {
	if s.store.session != nil && s.store.session.Remaining() <= 0 {
		return &admin.NotReady{Why: "the session with the shared store is over"}
	}
	if _, _, err := s.store.Load(ctx, "%"); err != nil {
		return &admin.NotReady{Why: tokenstore.ErrUnavailable.Error(), Err: err}
	}
	return nil
}

// tellReady says where the proxy listens, and what a crash before has left.
func (s *service) tellReady(at ports, rules int) {
	if s.store.Recovered() {
		settle := s.store.settle
		held := "newer tokens wait until the settle time is over; the token that a key has goes on at once where nothing older was in flight"
		if s.store.unordered {
			held = "every write with a token waits until the settle time is over, since some may have passed without one; a clean stop ends this, unless a rule has token: optional or mode: observe"
		}
		s.log.Warn("the last stop was not clean: writes of before may still land, so "+held,
			zap.Duration("settle", settle), zap.Time("until", time.Now().Add(settle)))
	}
	fields := []zap.Field{zap.String("version", version()), zap.Stringer("listen", at.data.Addr()), zap.String("upstream", s.cfg.Upstream.URL),
		zap.Int("rules", rules), zap.Bool("quarantine", s.store.Recovered())}
	if at.admin != nil {
		fields = append(fields, zap.Stringer("admin", at.admin.Addr()))
	}
	if at.leases != nil {
		fields = append(fields, zap.Stringer("leases", at.leases.Addr()))
	}
	s.log.Info("ready", fields...)
}

// tell tells systemd how far we are, where it has asked (NOTIFY_SOCKET).
func (s *service) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("systemd was not told", zap.String("state", state), zap.Error(err))
	}
}
