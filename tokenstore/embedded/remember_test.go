package embedded

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// What a running store was told is there in the next life, after a crash.
func TestRememberIsDurable(t *testing.T) {
	dir := t.TempDir()
	open := func(o Options) (*Store, error) {
		o.Path, o.Create = dir, true
		return Open(o)
	}
	s, err := open(Options{Rules: tokenstore.Rules{"a": "1"}, Settle: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	c := tokenstore.Configuration{Rules: tokenstore.Rules{"a": "1", "b": "1"}, Epochs: map[string]uint64{"b": 2}, Unordered: true, Settle: time.Minute}
	if err := s.Remember(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(false); err != nil {
		t.Fatal(err)
	}
	if _, err := open(Options{Rules: tokenstore.Rules{"b": "2"}}); !errors.As(err, new(*tokenstore.ChangedRulesError)) {
		t.Errorf("another fingerprint of b: %v", err)
	}
	if _, err := open(Options{Epochs: map[string]uint64{"b": 1}}); !errors.As(err, new(*tokenstore.EpochError)) {
		t.Errorf("a lower epoch of b: %v", err)
	}
	if s, err = open(Options{Settle: time.Second}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(false) }()
	if !s.Recovered() || !s.Unordered() || s.Settle() != time.Minute {
		t.Errorf("recovered %v, unordered %v, settle %v; want true, true, 1m", s.Recovered(), s.Unordered(), s.Settle())
	}
}

// It has the file to itself among folds, and comes to an end beside Close.
func TestRememberBesideFolds(t *testing.T) {
	s, err := Open(Options{Path: t.TempDir(), Create: true, tuning: tuning{foldAt: 8, foldChunk: 2}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 100 {
				if w == 0 {
					_ = s.Remember(t.Context(), tokenstore.Configuration{Rules: tokenstore.Rules{fmt.Sprint(i): "1"}})
				} else if _, err := s.Acquire(t.Context(), []tokenstore.Mark{{Key: tokenstore.Key(fmt.Sprint(w, i)), Token: tokenstore.Token{Major: 1}}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	closing := make(chan struct{})
	go func() {
		defer close(closing)
		for i := range 50 {
			_ = s.Remember(t.Context(), tokenstore.Configuration{Rules: tokenstore.Rules{fmt.Sprint("late", i): "1"}})
		}
	}()
	if err := s.Close(true); err != nil {
		t.Error(err)
	}
	<-closing
	if err := s.Err(); err != nil {
		t.Errorf("the store was poisoned: %v", err)
	}
}
