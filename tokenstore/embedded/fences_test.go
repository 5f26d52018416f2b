package embedded

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// A crash, and writes that no fence touched and a clean stop has left behind, are
// held against a life in which others are fenced, and only against that.
func TestFences(t *testing.T) {
	type life struct {
		fences                         string
		leaves, crash                  bool // how it ends
		unfenced, recovered, unordered bool // how it begins
		settle                         time.Duration
	}
	for name, lives := range map[string][]life{
		"nothing left": {
			{fences: "a"},
			{fences: "b"},
		},
		"left by a clean stop": {
			{fences: "a", leaves: true, settle: time.Hour},
			{fences: "b", recovered: true, unordered: true, settle: time.Hour},
			{fences: "b"},
		},
		"left, and the same fences": {
			{fences: "a", leaves: true, settle: time.Hour},
			{fences: "a", unfenced: true, leaves: true, settle: time.Hour},
			{fences: "a", unfenced: true, settle: time.Hour},
			{fences: "b"},
		},
		"left, the same fences, and a crash": {
			{fences: "a", leaves: true, settle: time.Hour},
			{fences: "a", unfenced: true, crash: true, settle: time.Hour},
			{fences: "b", recovered: true, unordered: true, crash: true, settle: time.Hour},
			{fences: "b", recovered: true, unordered: true, settle: time.Hour},
			{fences: "b"},
		},
		"left, and a life without a word of fences": {
			{fences: "a", leaves: true, settle: time.Hour},
			{settle: time.Hour},
			{fences: "b", recovered: true, unordered: true, settle: time.Hour},
		},
		"a crash": {
			{fences: "a", crash: true},
			{fences: "a", recovered: true, crash: true},
			{fences: "b", recovered: true, unordered: true, crash: true},
			{fences: "a", recovered: true, unordered: true, crash: true},
			{fences: "a", recovered: true, unordered: true},
			{fences: "a", crash: true},
			{fences: "a", recovered: true},
			{fences: "b"},
		},
		"a crash of a life that said nothing": {
			{crash: true},
			{fences: "a", recovered: true, unordered: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i, l := range lives {
				o := Options{Path: dir, Create: true, Fences: l.fences, Settle: time.Second}
				if i == 0 {
					o.Settle = max(o.Settle, l.settle)
				}
				s, err := Open(o)
				if err != nil {
					t.Fatal(err)
				}
				if s.Unfenced() != l.unfenced || s.Recovered() != l.recovered || s.Unordered() != l.unordered || s.Settle() != max(l.settle, time.Second) {
					t.Errorf("life %d: unfenced %v, recovered %v, unordered %v, settle %v; want %+v", i, s.Unfenced(), s.Recovered(), s.Unordered(), s.Settle(), l)
				}
				if l.leaves {
					s.LeaveUnfenced()
				}
				closed(t, s, !l.crash)
			}
		})
	}
}

// A reload's fences are those that the next life's are compared with.
func TestFencesAreRemembered(t *testing.T) {
	dir := t.TempDir()
	open := func() *Store {
		s, err := Open(Options{Path: dir, Create: true, Fences: "b", Settle: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if err := s.Remember(t.Context(), tokenstore.Configuration{Fences: "a", Settle: time.Second}); err != nil {
		t.Fatal(err)
	}
	s.LeaveUnfenced()
	closed(t, s, true)
	s = open()
	defer closed(t, s, false)
	if !s.Recovered() || !s.Unordered() {
		t.Error("the fences of the reload were not compared")
	}
}

// A dump does not say which writes were fenced: what was left behind makes it
// one of an unclean stop, and an import forgets what was fenced where it goes.
func TestMoveUnfenced(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, dir := range []string{from, to} {
		s, err := Open(Options{Path: dir, Create: true, Fences: "a", Settle: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if dir == from {
			raise(t, s, mark("k", 1))
			s.LeaveUnfenced()
		}
		closed(t, s, true)
	}
	b := exported(t, from)
	if h := reader(t, b).Header; h.Clean || !h.Unordered || h.Settle != time.Hour {
		t.Errorf("header %+v", h)
	}
	if done := imported(t, to, b); done.Clean {
		t.Error("it was imported as after a clean stop")
	}
	s, err := Open(Options{Path: to, Fences: "a", Settle: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, s, false)
	if !s.Recovered() || !s.Unordered() || s.Settle() != time.Hour {
		t.Errorf("the next start: recovered %v, unordered %v, settle %v", s.Recovered(), s.Unordered(), s.Settle())
	}
}
