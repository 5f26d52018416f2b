package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// rememberChecks are the promises of a tokenstore.Rememberer.
var rememberChecks = []check{
	{"a rule that is new is remembered, one that has changed is refused", func(t *testing.T, s tokenstore.Store) {
		mustRemember(t, s, tokenstore.Configuration{Rules: tokenstore.Rules{"a": "1"}, Settle: time.Millisecond})
		mustRemember(t, s, tokenstore.Configuration{Rules: tokenstore.Rules{"b": "1"}, Settle: time.Millisecond})
		err := remember(s, tokenstore.Configuration{Rules: tokenstore.Rules{"a": "2", "b": "1", "c": "1"}, Settle: time.Millisecond})
		var changed *tokenstore.ChangedRulesError
		if !errors.As(err, &changed) || len(changed.Rules) != 1 || changed.Rules[0] != "a" {
			t.Fatalf("error = %v, want a *ChangedRulesError that names a", err)
		}
		// Nothing of what was refused is remembered.
		mustRemember(t, s, tokenstore.Configuration{Rules: tokenstore.Rules{"a": "1", "c": "2"}, Settle: time.Millisecond})
	}},
	{"an epoch below the highest is refused", func(t *testing.T, s tokenstore.Store) {
		mustRemember(t, s, tokenstore.Configuration{Epochs: map[string]uint64{"a": 3}, Settle: time.Millisecond})
		mustRemember(t, s, tokenstore.Configuration{Epochs: map[string]uint64{"b": 1}, Settle: time.Millisecond})
		err := remember(s, tokenstore.Configuration{Epochs: map[string]uint64{"a": 2, "b": 2}, Settle: time.Millisecond})
		var epoch *tokenstore.EpochError
		if !errors.As(err, &epoch) || epoch.Rule != "a" || epoch.Highest != 3 {
			t.Fatalf("error = %v, want an *EpochError of a, whose highest is 3", err)
		}
		mustRemember(t, s, tokenstore.Configuration{Epochs: map[string]uint64{"a": 3, "b": 1}, Settle: time.Millisecond})
	}},
	{"a closed store remembers nothing", func(t *testing.T, s tokenstore.Store) {
		if err := s.Close(true); err != nil {
			t.Fatal(err)
		}
		wantUnknown(t, remember(s, tokenstore.Configuration{Settle: time.Millisecond}))
	}},
}

func remember(s tokenstore.Store, c tokenstore.Configuration) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return s.(tokenstore.Rememberer).Remember(ctx, c)
}

func mustRemember(t *testing.T, s tokenstore.Store, c tokenstore.Configuration) {
	t.Helper()
	if err := remember(s, c); err != nil {
		t.Fatalf("Remember(%+v): %v", c, err)
	}
}
