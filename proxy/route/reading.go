package route

import "strings"

// reading is how the rules of one PathPolicy read a target.
type reading struct {
	policy PathPolicy
	tree   *tree // for paths that policy.relax has had
}

// readingsOf returns the reading of each policy, the strict one first, and
// tells the rules which is theirs.
func readingsOf(all []*compiled) []reading {
	readings := []reading{{tree: newTree()}}
	index := map[PathPolicy]int{{}: 0}
	for _, c := range all {
		i, ok := index[c.rule.Policy]
		if !ok {
			i = len(readings)
			index[c.rule.Policy] = i
			readings = append(readings, reading{policy: c.rule.Policy, tree: newTree()})
		}
		c.reading = i
	}
	return readings
}

// verdict is what one reading says of a target.
type verdict struct {
	here    *leaf     // that the path is on
	cover   *covering // of here, or nil
	several bool
	path    string // decoded and relaxed; the key's {path}
	target  string // normalized, to be forwarded, or "" for as it came
	values  values
	refusal *Refusal
	claim   *pattern // of the rule that refuses, which the target could be on
}

// refuse makes the verdict a refusal about what is at a leaf.
func (v *verdict) refuse(kind Kind, about *covering, format string, args ...any) {
	v.refusal, v.claim = refuse(kind, about.index, format, args...), about.pattern
}

// pattern is the one that the target is on as it stands.
func (v *verdict) pattern() *pattern {
	if v.cover != nil {
		return v.cover.pattern
	}
	return v.here.rules[0].pattern
}

// owner is the rule that the verdict is about: the one that covers the target,
// or whose path it is on, or that refuses it; nil for none.
func (v *verdict) owner(t *Table) *compiled {
	switch {
	case v.refusal != nil:
		return t.rules[v.refusal.Rule]
	case v.cover != nil:
		return v.cover.compiled
	case v.here != nil:
		return v.here.rules[0].compiled
	}
	return nil
}

// read judges a target by one policy: by its path as it stands and by its
// folded form, and refuses where the two do not agree.
func (t *Table) read(rd *reading, q *question, tg target, s spelling, v *verdict) {
	policy := rd.policy
	raw, problem := tg.path, s.problem(policy.allows())
	if problem != "" && policy.Normalize && s.problem(policy.allows()|1<<departsByForm) == "" {
		if n := normalize(raw); n != "" {
			ns := examine(n)
			if problem = ns.problem(policy.allows()); problem == "" {
				raw, s = n, ns
				v.target = n + tg.forward[len(tg.path):]
			}
		}
	}
	path := raw
	if s.escaped {
		path = decode(raw)
	}
	v.path = policy.relax(path)
	v.here = rd.tree.find(v.path, &v.values)
	v.cover, v.several = v.here.choose(q)

	var fpath string
	if problem != "" || s.deep {
		fpath = fold(raw, policy)
	} else {
		fpath = foldCanonical(path)
	}
	there, foldCover, fv := v.here, v.cover, &v.values
	if fpath != v.path || !t.foldSame {
		var second values
		fv = &second
		there = t.folded.find(fpath, fv)
		var several bool
		foldCover, several = there.choose(q)
		v.several = v.several || several
	}

	switch {
	case problem != "" && v.cover != nil:
		v.refuse(PathNotCanonical, v.cover, "the target has %s; send it in its canonical spelling", problem)
	case problem != "" && foldCover != nil:
		v.refuse(PathNotCanonical, foldCover, "the target has %s and could be taken for %s; send it in its canonical spelling", problem, fpath)
	case v.cover == nil && foldCover == nil:
		// Nothing that is fenced is meant, whoever reads it.
	case there == nil && !v.cover.rule.NoKey:
		// An upstream that folds less would read other spellings as this target,
		// and they fold to nothing that is fenced: they would pass.
		v.refuse(PathAlias, v.cover, "some upstreams take the target for %s, which is on no rule's path; add that to the rule's paths, or say with path_policy how the upstream reads the target", fpath)
	case there != nil && (v.cover == nil || foldCover == nil || v.cover.compiled != foldCover.compiled):
		v.refuse(PathAlias, &there.rules[0], "some upstreams take the target for %s, where another rule applies; send that spelling, or the one that the rule's path has", fpath)
	case there != nil && !sameKeys(v.cover, &v.values, v.path, foldCover, fv, fpath):
		v.refuse(PathAlias, v.cover, "some upstreams take the target for %s, which has another resource key; send it in the spelling that the key has", fpath)
	default:
		v.refusal, v.claim = t.trespass(q, raw, &s, v.cover)
	}
}

// trespass refuses a target that passes only because its rule keeps encoded
// slashes or parameters, where without that it would be on a path of another
// rule which does not: a broad /* with `encoded_slash: segment` must not
// swallow /accounts%2F42. Rules that are broader than the own one claim
// nothing of its paths.
func (t *Table) trespass(q *question, raw string, s *spelling, own *covering) (*Refusal, *pattern) {
	policy := own.rule.Policy
	if s.found == 0 && (!policy.Params || !s.deep) {
		return nil, nil
	}
	var v values
	strict := fold(raw, PathPolicy{})
	there := t.folded.find(strict, &v)
	if there == nil {
		return nil, nil
	}
	for i := range there.rules {
		other := &there.rules[i]
		if other.compiled == own.compiled {
			return nil, nil
		}
		theirs := other.rule.Policy
		if policy.allows()&^theirs.allows() == 0 || other.pattern.takesIn(own.pattern) {
			continue
		}
		return refuse(PathAlias, other.index, "without the path policy of the rule that covers it the target is %s, where another rule applies; send that spelling, or give both rules one path_policy", strict), other.pattern
	}
	return nil, nil
}

// matchPath finds the covering rule. Each policy reads the target in its own
// way, and only what it says of its own rules counts: of two rules that claim
// the target, none is sure to be right, unless one is the broader one.
func (t *Table) matchPath(m *Match, q *question, tg target) *Refusal {
	s := examine(tg.path)
	if tg.absolute {
		s.depart(departsByForm, aURL)
	}
	if strings.IndexByte(tg.query, '#') >= 0 {
		s.depart(departsBadly, "a fragment (#)")
	}
	if s.plain && t.foldSame {
		v := verdict{path: tg.path}
		v.here = t.readings[0].tree.find(v.path, &v.values)
		v.cover, v.several = v.here.choose(q)
		return m.settle(&v)
	}
	if len(t.readings) == 1 {
		var v verdict
		t.read(&t.readings[0], q, tg, s, &v)
		return m.settle(&v)
	}
	return t.matchEach(m, q, tg, s)
}

// matchEach asks every reading.
func (t *Table) matchEach(m *Match, q *question, tg target, s spelling) *Refusal {
	var (
		own        verdict // the good word of a reading about a rule of its own
		found      bool
		refused    *Refusal  // the first, or the first about a rule of its own reading
		objections []verdict // refusals about a rule of their own reading
		foreign    *compiled // covered, as a reading says that has no say about it
	)
	for i := range t.readings {
		var v verdict
		t.read(&t.readings[i], q, tg, s, &v)
		rule := v.owner(t)
		mine := rule != nil && rule.reading == i
		switch {
		case v.refusal != nil:
			if refused == nil || mine && objections == nil {
				refused = v.refusal
			}
			if mine {
				objections = append(objections, v)
			}
		case mine && found && own.owner(t) != rule:
			return refuse(PathAlias, rule.index, "two rules with different path policies both cover the target; send it in its canonical spelling, or give both rules one path_policy")
		case mine:
			own, found = v, true
		case v.cover != nil:
			foreign = rule
		}
	}
	switch {
	case found:
		for _, o := range objections { // by a broader rule it is none: see trespass
			if !o.claim.takesIn(own.pattern()) {
				return o.refusal
			}
		}
		return m.settle(&own)
	case refused != nil:
		return refused
	case foreign != nil:
		return refuse(PathAlias, foreign.index, "whether the target is on a path of the rule depends on the path policy; send it in its canonical spelling")
	}
	return m.settle(&verdict{path: tg.path})
}

// settle puts a verdict into the match.
func (m *Match) settle(v *verdict) *Refusal {
	if v.refusal != nil {
		return v.refusal
	}
	m.path = v.path
	if v.cover == nil {
		if v.here != nil {
			m.PathRule = v.here.rules[0].index
		}
		return nil
	}
	m.Rule, m.cover, m.values = v.cover.index, v.cover, v.values
	if v.target != "" {
		m.Target = v.target
	}
	if v.several {
		return refuse(KeyUnresolvable, v.cover.index, "several rules share the path of the request, and nothing tells which of them it means; send the method itself, or the token header of one rule")
	}
	return nil
}
