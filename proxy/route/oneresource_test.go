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
		play(t, s, tokens, met)
	}
	for _, what := range []string{"fenced", "not fenced", "refused", "shared"} {
		if met[what] == 0 {
			t.Errorf("no target was %s", what)
		}
	}
	t.Logf("%v", met)
}

// play tries all targets of a scene under all tables.
func play(t *testing.T, s scene, tokens int, met map[string]int) {
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
	for _, tab := range resourceTables(s.letter) {
		table := mustNew(t, tab.rules...)
		j := judge{t: t, where: s.name + ", " + tab.name, in: &in, met: met, first: map[readAs]witness{}}
		for _, target := range targets {
			f, sent, passes := fateOf(t, table, tab.method, target)
			switch {
			case !passes:
				met["refused"]++
			case f.rule >= 0:
				met["fenced"]++
				p := held(tab.rules[f.rule].Policy)
				j.look(readAs{policy: p}, target, f, readings(sent, p))
				j.look(readAs{fenced: true}, target, f, readings(sent, p))
			default:
				// No rule says how it is read: as the upstream of each rule would.
				met["not fenced"]++
				for p := range tab.policies() {
					j.look(readAs{policy: p}, target, f, readings(sent, p))
				}
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

// fateOf also returns the path that is forwarded.
func fateOf(t *testing.T, table *Table, method, target string) (f fate, sent string, passes bool) {
	t.Helper()
	r := byHand(method, target)
	m, err := table.Match(r)
	if err != nil {
		return fate{}, "", false
	}
	if !m.Covered() || m.cover.rule.NoKey {
		return fate{rule: -1}, m.Target, true
	}
	keys, err := table.Keys(&m, r, nil)
	if err != nil {
		return fate{}, "", false
	}
	key, policy := string(keys[0]), m.cover.rule.Policy
	if !policy.TrailingSlash {
		key = strings.TrimSuffix(key, "/")
	}
	if !policy.CaseInsensitive {
		key = foldRunes(decodeOnce(key, heldSlash))
	}
	return fate{m.Rule, key}, m.Target, true
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

// readAs is a reading by an upstream with a policy, or one of a fenced target
// by the upstream of its rule.
type readAs struct {
	policy PathPolicy
	fenced bool
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
