package memory_test

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) tokenstore.Store { return memory.New() })
}

func TestKeys(t *testing.T) {
	s := memory.New()
	for _, key := range []tokenstore.Key{"a", "b", "a"} {
		if _, err := s.Acquire(t.Context(), []tokenstore.Mark{{Key: key}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Keys(); n != 2 {
		t.Errorf("Keys = %d, want 2", n)
	}
}

func TestClearIsAdded(t *testing.T) {
	s := memory.New()
	one := tokenstore.Token{Major: 1}
	if _, err := s.Acquire(t.Context(), []tokenstore.Mark{{Key: "k", Token: one}}); err != nil {
		t.Fatal(err)
	}
	s.Clear("k", one)
	if rec, _, _ := s.Load(t.Context(), "k"); !rec.Clear {
		t.Error("clear was not added to the highest token")
	}
}

func TestLeases(t *testing.T) {
	storetest.RunLeases(t, func(*testing.T) storetest.LeaseStore { return memory.New() })
}
