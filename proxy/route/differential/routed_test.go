package differential

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/route"
)

// routed is what one router makes of all trials. Readings that share a policy
// share it.
type routed struct {
	name     string
	verdicts []verdict // in the order of the trials
}

func routeAll(name string, rt router, trials []*trial) *routed {
	all := &routed{name, make([]verdict, len(trials))}
	for i, t := range trials {
		if t.r == nil {
			continue // net/http refuses it
		}
		v := rt.judge(t.r)
		if v.passes {
			v.forwarded = forwarded(t.r, v.target, t.body)
		}
		all.verdicts[i] = v
	}
	return all
}

// tables are all that a reading is tried with: each set of rules with each
// policy. They are made once, and kept in known.
func (rd reading) tables(t *testing.T, trials []*trial, known map[string]*routed) (all []*routed) {
	t.Helper()
	for _, policy := range rd.policies() {
		for _, set := range rd.sets {
			name := set.name + " rules, {" + policy.String() + "}"
			id := name + rd.needs.String()
			if known[id] == nil {
				table, err := route.New(set.rules(rd.needs, policy), route.Options{Headers: []string{"X-Fencing-Token"}})
				if err != nil {
					t.Fatal(err)
				}
				known[id] = routeAll(name, fence{table}, trials)
			}
			all = append(all, known[id])
		}
	}
	return all
}
