package embedded

import (
	"errors"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// TestEpochs: the highest epoch of a rule is remembered, through unclean stops
// and while the rule is gone, and a lower one is refused with nothing changed.
func TestEpochs(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []struct {
		name    string
		epochs  map[string]uint64
		clean   bool
		refused uint64 // the highest that the refusal names
	}{
		{name: "first", epochs: map[string]uint64{"a": 0, "b": 3}},
		{name: "the same", epochs: map[string]uint64{"a": 0, "b": 3}, clean: true},
		{name: "lower", epochs: map[string]uint64{"a": 1, "b": 2}, refused: 3},
		{name: "higher", epochs: map[string]uint64{"a": 1, "b": 4}},
		{name: "gone", epochs: map[string]uint64{"a": 1}},
		{name: "back, lower", epochs: map[string]uint64{"b": 3}, refused: 4},
		{name: "back", epochs: map[string]uint64{"b": 4}, clean: true},
	} {
		s, err := Open(Options{Path: dir, Create: true, Epochs: step.epochs})
		if step.refused > 0 {
			var e *tokenstore.EpochError
			if !errors.As(err, &e) || e.Rule != "b" || e.Highest != step.refused {
				t.Fatalf("%s: %v", step.name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if err := s.Close(step.clean); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
}
