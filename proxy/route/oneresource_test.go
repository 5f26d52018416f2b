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
	met := map[string]int{}
	tokens := *tokensOf
	if raceEnabled {
		tokens-- // there is no race to be found
	}
	for _, s := range scenes() {
		var in interner
		targets := s.targets(tokens)
		read := map[PathPolicy]map[string][]int{} // the readings of a target by an upstream with a policy
		readingsOf := func(target string, p PathPolicy) []int {
			p = held(p)
			if read[p] == nil {
				read[p] = map[string][]int{}
			}
			all, ok := read[p][target]
			if !ok {
				all = in.readings(target, steps(p))
				read[p][target] = all
			}
			return all
		}
		for _, tab := range resourceTables(s.letter) {
			table := mustNew(t, tab.rules...)
			j := judge{t: t, where: s.name + ", " + tab.name, in: &in, met: met}
			for _, target := range targets {
				f, sent, passes := fateOf(t, table, tab.method, target)
				switch {
				case !passes:
					met["refused"]++
				case f.rule >= 0:
					// A rule's policy is true of what its paths are to the upstream.
					j.look(nil, target, f, readingsOf(sent, tab.rules[f.rule].Policy))
					p := held(tab.rules[f.rule].Policy)
					j.look(&p, target, f, readingsOf(sent, p))
				default:
					// No rule says how it is read: that is asked of each.
					for p := range tab.policies() {
						j.look(&p, target, f, readingsOf(sent, p))
					}
				}
			}
		}
	}
	for _, what := range []string{"fenced", "not fenced", "refused", "shared"} {
		if met[what] == 0 {
			t.Errorf("no target was %s", what)
		}
	}
	t.Logf("%v", met)
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

type readAs struct {
	policy PathPolicy // of whom the upstream is, where all says nothing else
	all    bool       // upstreams of different policies
	text   int
}

type witness struct {
	fate
	target string
}

// look notes a target with its readings; policy nil is for fenced ones of all
// policies.
func (j *judge) look(policy *PathPolicy, target string, f fate, readings []int) {
	if j.first == nil {
		j.first = map[readAs]witness{}
	}
	as := readAs{all: policy == nil}
	if policy != nil {
		as.policy = *policy
		j.met[map[bool]string{true: "fenced", false: "not fenced"}[f.rule >= 0]]++
	}
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
