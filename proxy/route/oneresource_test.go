package route

import (
	"flag"
	"strings"
	"testing"
)

var tokensOf = flag.Int("route.tokens", 3, "how many tokens the targets of TestOneResource have behind their beginning")

// maxHoles is how many holes are told of one table.
const maxHoles = 3

// TestOneResource: where two targets are one resource to some upstream, and
// one of them passes with a key, the other one passes with the same key of the
// same rule, or is refused. What is left to the upstream is in fate.
func TestOneResource(t *testing.T) {
	tokens := *tokensOf
	if raceEnabled {
		tokens-- // there is no race to be found
	}
	met := map[string]int{}
	for _, s := range scenes() {
		play(t, s, resourceTables(s.letter), tokens, met)
	}
	for _, what := range []string{"fenced", "not fenced", "refused", "shared"} {
		if met[what] == 0 {
			t.Errorf("no target was %s", what)
		}
	}
	t.Logf("%v", met)
}

// play tries all targets of a scene under each table.
func play(t *testing.T, s scene, tables []resourceTable, tokens int, met map[string]int) {
	var in interner
	targets := s.targets(tokens)
	known := map[PathPolicy]map[string][]int{} // by what is held
	readings := func(target string, p PathPolicy) []int {
		if known[p] == nil {
			known[p] = map[string][]int{}
		}
		all, ok := known[p][target]
		if !ok {
			all = in.readings(target, steps(p))
			known[p][target] = all
		}
		return all
	}
	for _, tab := range tables {
		table := mustNew(t, tab.rules...)
		j := judge{t: t, where: s.name + ", " + tab.name, in: &in, met: met, first: map[readAs]witness{}}
		for _, target := range targets {
			f, m, passes := fateOf(t, table, tab.method, target)
			switch {
			case !passes:
				met["refused"]++
				continue
			case f.rule >= 0:
				met["fenced"]++
			default:
				met["not fenced"]++
			}
			// What the rule of its path says of the upstream is true of it, one
			// that leaves the request out too; and where it meets the target of
			// another rule, what that says as well.
			var own PathPolicy
			if by := max(m.Rule, m.PathRule); by >= 0 {
				own = tab.rules[by].Policy
			}
			for _, p := range tab.held(own) {
				j.look(readAs{policy: p}, target, f, readings(m.Target, p))
			}
		}
	}
}

// fate is what becomes of a target that passes. The key is as far as it must
// be the same for all spellings of one resource: letter case in values, and a
// trailing slash in {path} and {*}, are the upstream's business, unless a
// policy says that they do not count.
type fate struct {
	rule int // -1: it passes without a fence
	key  string
}

func fateOf(t *testing.T, table *Table, method, target string) (f fate, m Match, passes bool) {
	t.Helper()
	r := byHand(method, target)
	m, err := table.Match(r)
	if err != nil {
		return fate{}, m, false
	}
	if !m.Covered() || m.cover.rule.NoKey {
		return fate{rule: -1}, m, true
	}
	keys, err := table.Keys(&m, r, nil)
	if err != nil {
		return fate{}, m, false
	}
	key, policy := string(keys[0]), m.cover.rule.Policy
	if !policy.TrailingSlash {
		key = strings.TrimSuffix(key, "/")
	}
	if !policy.CaseInsensitive {
		key = foldRunes(decodeOnce(key, heldSlash))
	}
	return fate{m.Rule, key}, m, true
}

// judge compares the fates of targets under one table.
type judge struct {
	t     *testing.T
	where string
	in    *interner
	met   map[string]int
	holes int
	first map[readAs]witness // who had a reading first
}

// readAs is a reading by an upstream of which a policy is true.
type readAs struct {
	policy PathPolicy
	text   int
}

type witness struct {
	fate
	target string
}

// look compares a target with those that had one of its readings before.
func (j *judge) look(as readAs, target string, f fate, readings []int) {
	for _, as.text = range readings {
		before, ok := j.first[as]
		switch {
		case !ok:
			j.first[as] = witness{f, target}
		case before.fate != f:
			if j.holes++; j.holes <= maxHoles {
				j.t.Errorf("%s: %q passes as %v and %q as %v, and some upstreams read both as %q", j.where, before.target, before.fate, target, f, j.in.texts[as.text])
			}
		case before.target != target && f.rule >= 0:
			j.met["shared"]++
		}
	}
}
