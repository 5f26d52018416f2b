// Package differential asks real servers which spellings of a request they
// take for one resource, and holds proxy/route to it: of all that a server
// takes for one, what passes has one key. It has nothing but tests.
package differential

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var (
	seed      = flag.Uint64("seed", 1, "of the spellings")
	spellings = flag.Int("spellings", 3000, "how many requests every server is asked")
)

func TestDifferential(t *testing.T) {
	t.Logf("seed %d: run again with -seed", *seed)
	servers, front := startServers(t), startFront(t)
	var trials []*trial
	for _, s := range mutate(rand.New(rand.NewPCG(*seed, 0)), *spellings) {
		raw := s.bytes()
		trials = append(trials, &trial{s, raw, front.read(t, raw)})
	}

	known, none := map[string]*routed{}, routeAll("none", naive{}, trials)
	tables := map[string][]*routed{}    // by reading
	ask := map[string]map[string]bool{} // by server
	plan := func(rd reading, n int) {   // to ask about the first n
		tables[rd.name] = rd.tables(t, trials, known)
		if ask[rd.server] == nil {
			ask[rd.server] = map[string]bool{}
		}
		for _, tr := range trials[:n] {
			ask[rd.server][tr.raw] = true
		}
		for _, rt := range append(tables[rd.name], none) {
			for _, v := range rt.verdicts[:n] {
				if v.passes {
					ask[rd.server][v.forwarded] = true
				}
			}
		}
	}
	for _, rd := range readings() {
		plan(rd, len(trials))
	}
	for _, rd := range unsafeReadings() {
		plan(rd, len(bases())+len(remembered()))
	}
	for name, requests := range ask {
		servers[name].ask(t, requests)
	}
	if t.Failed() {
		return
	}

	kinds := map[string]int{}
	for _, rd := range readings() {
		t.Run(rd.name, func(t *testing.T) {
			s := servers[rd.server]
			n := pairs(rd, s, trials)
			for kind, k := range n {
				kinds[kind] += k
			}
			if n[""] < rd.pairs {
				t.Errorf("the server took only %d of %d spellings for what they were made from, %d are needed: this has shown too little", n[""], len(trials), rd.pairs)
			}
			var findings findings
			for _, rt := range tables[rd.name] {
				found, fenced := judge(rd, s, rt, trials)
				findings.add(rt.name, found)
				if fenced < 200 {
					t.Errorf("%s: only %d spellings passed the fence: this has shown too little", rt.name, fenced)
				}
			}
			findings.report(t)
			found, _ := judge(rd, s, none, trials)
			if len(found) < 50 {
				t.Errorf("the checker finds only %d violations of a router that has no canonical form at all", len(found))
			}
			t.Logf("%d requests, %d spellings taken for what they were made from, %d tables; %d violations of the naive router", len(s.answers), n[""], len(tables[rd.name]), len(found))
		})
	}
	for _, rd := range unsafeReadings() {
		t.Run(rd.name, func(t *testing.T) {
			for _, rt := range tables[rd.name] {
				if found, _ := judge(rd, servers[rd.server], rt, trials); len(found) == 0 {
					t.Errorf("%s: nothing passes with two keys any more: %s; the README need not warn of it, and it is an ordinary reading", rt.name, rd.why)
				}
			}
		})
	}
	for _, m := range mutations() {
		t.Logf("taken for what they were made from: %4d of the kind %q", kinds[m.kind], m.kind)
		if kinds[m.kind] < m.pairs {
			t.Errorf("the servers took only %d spellings of the kind %q for what they were made from, %d are needed: this has shown too little", kinds[m.kind], m.kind, m.pairs)
		}
		if (m.pairs == 0) != (m.why != "") {
			t.Errorf("the kind %q has no count and no reason, or both", m.kind)
		}
	}
}
