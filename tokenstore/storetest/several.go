package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// severalChecks are the promises on marks of several keys: all or none.
var severalChecks = []check{
	{"several marks are recorded together", testSeveral},
	{"one stale mark of several refuses all", testSeveralStale},
	{"one collision of several refuses all", testSeveralCollision},
}

func testSeveral(t *testing.T, s tokenstore.Store) {
	var marks []tokenstore.Mark
	for i := range uint64(16) {
		// Falling order, so that a store which needs sorted keys has to sort.
		marks = append(marks, mark(tokenstore.Key(fmt.Sprintf("k%02d", 16-i)), i))
	}
	mustAcquire(t, s, marks...)
	for _, m := range marks {
		wantHighest(t, s, m.Key, m.Token)
	}
	// Higher, equal and new ones mixed.
	mustAcquire(t, s, mark("k16", 9), mark("k01", 15), mark("new", 1))
	wantHighest(t, s, "k16", token(9))
	wantHighest(t, s, "k01", token(15))
	wantHighest(t, s, "new", token(1))
}

func testSeveralStale(t *testing.T, s tokenstore.Store) {
	mustAcquire(t, s, mark("b", 5))
	mustAcquire(t, s, mark("old", 1))
	for name, marks := range map[string][]tokenstore.Mark{
		"first":  {mark("b", 4), mark("a", 9), mark("old", 9)},
		"middle": {mark("a", 9), mark("b", 4), mark("old", 9)},
		"last":   {mark("a", 9), mark("old", 9), mark("b", 4)},
	} {
		t.Run(name, func(t *testing.T) {
			wantStale(t, acquire(s, marks...), tokenstore.StaleError{Key: "b", Token: token(4), Highest: token(5)})
			wantNone(t, s, "a")
			wantHighest(t, s, "old", token(1))
			wantHighest(t, s, "b", token(5))
		})
	}
}

func testSeveralCollision(t *testing.T, s tokenstore.Store) {
	mustAcquire(t, s, tokenstore.Mark{Key: "b", Token: token(5), Holder: "x"})
	err := acquire(s, mark("a", 9), tokenstore.Mark{Key: "b", Token: token(5), Holder: "y"}, mark("c", 9))
	var collision *tokenstore.CollisionError
	if !errors.As(err, &collision) {
		t.Fatalf("error = %v, want a *CollisionError", err)
	}
	wantNone(t, s, "a", "c")
	if got := load(t, s, "b").Holder; got != "x" {
		t.Errorf("holder = %q, want x", got)
	}
}
