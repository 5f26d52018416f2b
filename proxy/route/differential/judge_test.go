package differential

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// trial is one spelling with the request that net/http makes of it.
type trial struct {
	spelling
	raw string
	r   *http.Request // nil where net/http refuses it
}

// violation is a pair that a server takes for one resource, and that pass with
// two keys; or one request whose token the server reads otherwise.
type violation struct {
	a, b       *trial
	keyA, keyB string
	what       string
}

func (v violation) size() int {
	n := len(v.a.raw)
	if v.b != nil {
		n += len(v.b.raw)
	}
	return n
}

func (v violation) String() string {
	s := fmt.Sprintf("%s\n\t%s\n\t  %s", v.what, show(v.a), fate(v.keyA))
	if v.b != nil {
		s += fmt.Sprintf("\n\t%s\n\t  %s", show(v.b), fate(v.keyB))
	}
	return s
}

func show(t *trial) string {
	return fmt.Sprintf("%q (%s)", strings.TrimSuffix(t.raw, "Content-Length: 0\r\n\r\n"), strings.Join(t.kinds, ", "))
}

func fate(key string) string {
	if key == "" {
		return "passes without a fence"
	}
	return "passes with the key " + key
}

// judge looks for violations of one reading under one router, the smallest
// first, and counts what passed its fence. The server has answered what the
// router forwards.
func judge(rd reading, s *server, rt *routed, trials []*trial) (found []violation, fenced int) {
	type passed struct {
		t   *trial
		key string
	}
	groups := map[string][]passed{}
	for i, t := range trials {
		v := rt.verdicts[i]
		if !v.passes {
			continue
		}
		f := s.answers[v.forwarded]
		id := rd.resource(f)
		if id == "" {
			continue
		}
		if v.key != "" {
			fenced++
			if token := readToken(t.r); f[rd.token] != token {
				found = append(found, violation{a: t, keyA: v.key, what: fmt.Sprintf("the server reads the token %q, and the proxy %q", f[rd.token], token)})
			}
		}
		groups[id] = append(groups[id], passed{t, v.key})
	}
	for id, all := range groups {
		// One witness for each key, the shortest.
		least := map[string]*trial{}
		for _, p := range all {
			if least[p.key] == nil || len(p.t.raw) < len(least[p.key].raw) {
				least[p.key] = p.t
			}
		}
		if len(least) < 2 {
			continue
		}
		keys := make([]string, 0, len(least))
		for key := range least {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys[:len(keys)-1] {
			last := keys[len(keys)-1] // never "", the one without a fence
			found = append(found, violation{least[last], least[key], last, key, fmt.Sprintf("the server takes both for %q", strings.ReplaceAll(id, mark, " "))})
		}
	}
	slices.SortFunc(found, func(a, b violation) int {
		if d := a.size() - b.size(); d != 0 {
			return d
		}
		return strings.Compare(a.String(), b.String())
	})
	return found, fenced
}

// pairs counts, for each kind of mutation and under "" for all, the spellings
// that the reading takes for what they were made from.
func pairs(rd reading, s *server, trials []*trial) map[string]int {
	base := map[int]string{}
	for _, t := range trials {
		if len(t.kinds) == 0 {
			base[t.base] = rd.resource(s.answers[t.raw])
		}
	}
	n := map[string]int{}
	for _, t := range trials {
		if len(t.kinds) == 0 || base[t.base] == "" || rd.resource(s.answers[t.raw]) != base[t.base] {
			continue
		}
		n[""]++
		for _, kind := range t.kinds {
			n[kind]++
		}
	}
	return n
}
