package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
)

// farewell is what is left to requests that no fence touches once everything
// fenced is over.
const farewell = time.Second

// untilStopped starts the service, and returns the signal that came before it was
// ready, if one did. A shared store may be waited for long: the first signal ends
// that, where the store's client heeds it, and a second one waits for nothing.
func untilStopped(signals <-chan os.Signal, start func(context.Context) (*service, error)) (*service, os.Signal, error) {
	type result struct {
		s   *service
		err error
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan result, 1)
	go func() {
		s, err := start(ctx)
		started <- result{s, err}
	}()
	select {
	case r := <-started:
		return r.s, nil, r.err
	case sig := <-signals:
		cancel()
		select {
		case r := <-started:
			return r.s, sig, r.err
		case <-signals:
			return nil, nil, &exitError{exitBusy, errors.New("stopped before it was ready: a second signal came; an embedded store may be left as after a crash, and then the next start quarantines its keys for the settle time")}
		}
	}
}

// patience is how long a stop waits: until shutdown_timeout is over, or a second
// signal comes.
func (s *service) patience(signals <-chan os.Signal) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.reload.cfg.ShutdownTimeout, errors.New("shutdown_timeout is over"))
	ctx, hurry := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-signals:
			hurry(errors.New("a second signal came"))
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// shutDown closes the data port to new connections; what it returns is closed
// once those that are there are over, websockets too.
func (s *service) shutDown(ctx context.Context) <-chan struct{} {
	down := make(chan struct{})
	go func() {
		defer close(down)
		if s.data.Shutdown(ctx) == nil {
			s.handler.WaitTunnels() // Shutdown does not know them
		}
	}()
	return down
}

// unclean tells what was not over when the wait was.
func (s *service) unclean(why error, older bool) error {
	c := s.gate.Counts()
	return &exitError{exitBusy, fmt.Errorf("stopped without the clean marker: %w, with %s in flight, %d unsettled, quarantine %v, writes of before a reload %v; the next start quarantines its keys for the settle time",
		why, count(c.InFlight, "write", "writes"), c.Unsettled, c.Quarantine, older)}
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
