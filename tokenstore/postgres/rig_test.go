package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

func tok(n uint64) tokenstore.Token { return tokenstore.Token{Major: n} }

func mark(key tokenstore.Key, n uint64) tokenstore.Mark {
	return tokenstore.Mark{Key: key, Token: tok(n)}
}

// quick are times that a test can wait for, and that a busy machine keeps.
func quick() session.Options {
	return session.Options{TTL: 9 * time.Second, Margin: 3 * time.Second, Linger: time.Second, OpTimeout: 5 * time.Second,
		SweepEvery: 200 * time.Millisecond, ReconcileEvery: time.Second}
}

// proxy is one proxy's store. The test closes it.
func proxy(t testing.TB, b session.Backend, o session.Options) *session.Store {
	t.Helper()
	s, err := session.Open(t.Context(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range s.Raised() {
		}
	}()
	t.Cleanup(func() { _ = s.Close(false) })
	return s
}

// admit asks for a write until it is admitted.
func admit(t testing.TB, s *session.Store, within time.Duration, marks ...tokenstore.Mark) tokenstore.Grant {
	t.Helper()
	end := time.Now().Add(within)
	for {
		g, err := try(s, time.Until(end), marks...)
		var stale *tokenstore.StaleError
		switch {
		case err == nil:
			return g
		case errors.As(err, &stale), time.Now().After(end):
			t.Fatalf("%v is not admitted within %v: %v", marks, within, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// try asks once.
func try(s *session.Store, within time.Duration, marks ...tokenstore.Mark) (tokenstore.Grant, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	g, err := s.Acquire(ctx, marks)
	if err != nil {
		return nil, err
	}
	if err := g.Drained(ctx); err != nil {
		g.Release()
		return nil, err
	}
	return g, nil
}

func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

func logger() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	return zap.New(core), logs
}
