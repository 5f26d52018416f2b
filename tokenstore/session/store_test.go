package session_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestStore(t *testing.T) {
	storetest.RunShared(t, func(t *testing.T) tokenstore.Store {
		s, err := session.Open(t.Context(), sessiontest.NewEngine().Port(), session.Options{Linger: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// TestEngine holds the engine in memory to what every engine has to promise.
func TestEngine(t *testing.T) {
	sessiontest.Run(t, func(*testing.T) func(*testing.T) session.Backend {
		e := sessiontest.NewEngine()
		return func(*testing.T) session.Backend { return e.Port() }
	})
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]session.Options{
		"no linger":        {},
		"margin above ttl": {TTL: time.Second, Margin: time.Second, Linger: 1},
		"negative":         {Linger: 1, PollEvery: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := session.Open(t.Context(), sessiontest.NewEngine().Port(), o); err == nil {
				_ = s.Close(true)
				t.Error("it was opened")
			}
		})
	}
}

// TestRules: a start with other rules is refused, unless it is accepted and no
// other proxy runs.
func TestRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := sessiontest.NewEngine()
		open := func(fp tokenstore.Fingerprint, epoch uint64, accept ...string) (*session.Store, error) {
			return session.Open(t.Context(), e.Port(), session.Options{Linger: 30 * time.Second, Clock: virtual(),
				Rules: tokenstore.Rules{"a": fp, "b": "same"}, Epochs: map[string]uint64{"a": epoch}, AcceptChanged: accept})
		}
		first, err := open("one", 1)
		if err != nil {
			t.Fatal(err)
		}
		var changed *tokenstore.ChangedRulesError
		if _, err = open("two", 1); !errors.As(err, &changed) || !slices.Equal(changed.Rules, []string{"a"}) {
			t.Fatalf("error = %v, want that rule a has changed", err)
		}
		var epoch *tokenstore.EpochError
		if _, err = open("one", 0); !errors.As(err, &epoch) {
			t.Fatalf("error = %v, want that the epoch went down", err)
		}
		var others *session.OthersError
		if _, err = open("two", 1, "a"); !errors.As(err, &others) || others.Others != 1 {
			t.Fatalf("error = %v, want that another proxy runs", err)
		}
		second, err := open("one", 1) // the refused change left no trace
		if err != nil {
			t.Fatal(err)
		}
		closeStore(t, second, true)
		closeStore(t, first, false)
		if _, err = open("two", 2, "a"); !errors.As(err, &others) {
			t.Fatalf("error = %v, want that another session is alive", err)
		}
		time.Sleep(10 * time.Second) // it runs out, and then lingers
		began := time.Now()
		third, err := open("two", 2, "a")
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < 30*time.Second || waited > 33*time.Second {
			t.Errorf("the change was made after %v, want linger", waited)
		}
		if got := third.Changed(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("Changed = %v", got)
		}
		closeStore(t, third, true)
		if _, err = open("one", 2); !errors.As(err, &changed) {
			t.Fatalf("error = %v, want that rule a has changed", err)
		}
	})
}

// meanwhile has something done before the given call of Update.
type meanwhile struct {
	session.Backend
	calls int
	do    func()
}

func (m *meanwhile) Update(ctx context.Context, change func([]byte) ([]byte, error)) error {
	if m.calls--; m.calls == 0 {
		m.do()
	}
	return m.Backend.Update(ctx, change)
}

// TestRulesGivenUp: a start with other rules that is given up, while it waits for
// what a proxy has left behind that came and went just before the change, takes the
// change back.
func TestRulesGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := sessiontest.NewEngine()
		open := func(ctx context.Context, b session.Backend, fp tokenstore.Fingerprint, accept ...string) (*session.Store, error) {
			return session.Open(ctx, b, session.Options{Linger: 30 * time.Second, Clock: virtual(), Rules: tokenstore.Rules{"a": fp}, AcceptChanged: accept})
		}
		first, err := open(t.Context(), e.Port(), "one")
		if err != nil {
			t.Fatal(err)
		}
		closeStore(t, first, true)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		port := e.Port()
		gone := &meanwhile{port, 2, func() { // the first call only looks
			if err := port.Begin(ctx, session.ID{1}, time.Second); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Second)
		}}
		time.AfterFunc(10*time.Second, cancel)
		if _, err := open(ctx, gone, "two", "a"); err == nil || ctx.Err() == nil {
			t.Fatalf("error = %v, want that it was given up", err)
		}
		again, err := open(t.Context(), e.Port(), "one")
		if err != nil {
			t.Fatalf("the change has stayed: %v", err)
		}
		closeStore(t, again, true)
	})
}

func closeStore(t *testing.T, s *session.Store, clean bool) {
	t.Helper()
	if err := s.Close(clean); err != nil {
		t.Error(err)
	}
}
