package torture

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// One seed makes one plan: the blows, the harms and the writes.
func TestSeedMakesThePlan(t *testing.T) {
	type plan struct {
		steps  []Step
		harms  []Harm
		writes []Write
	}
	draw := func(seed uint64) (p plan) {
		p.steps = Schedule(seed, 12)
		harms := Harms{Seed: seed, PerMille: 30, There: 1000, Back: 1000, Delay: time.Second}
		d := Draw{Rand: rand.New(rand.NewPCG(seed, 1)), Patience: time.Second, Late: time.Second, Buffer: 1000}
		for n := range 1000 {
			p.harms = append(p.harms, harms.Of(n))
			var w Write
			d.Write(&w)
			p.writes = append(p.writes, w)
		}
		return p
	}
	a, again, b := draw(1), draw(1), draw(2)
	if !slices.Equal(a.steps, again.steps) || !slices.Equal(a.harms, again.harms) || !slices.Equal(a.writes, again.writes) {
		t.Error("one seed made two plans")
	}
	if slices.Equal(a.steps, b.steps) || slices.Equal(a.harms, b.harms) || slices.Equal(a.writes, b.writes) {
		t.Error("two seeds made one plan")
	}
}

// A schedule has its kills, and something of everything.
func TestSchedule(t *testing.T) {
	for _, n := range []int{1, 6, 12, 200} {
		steps := Schedule(7, n)
		count := map[Blow]int{}
		killed := 0
		for i, st := range steps {
			count[st.Blow]++
			if slices.Contains(kills, st.Blow) {
				killed++
			} else if i < min(n, len(kills)) {
				t.Errorf("%d kills: step %d is %q", n, i, st.Blow)
			}
		}
		want := slices.Concat(kills[:min(n, len(kills))], other)
		for _, b := range want {
			if count[b] == 0 {
				t.Errorf("%d kills: nobody is %q", n, b)
			}
		}
		if killed != n || len(steps) != n+max(n, len(other)) {
			t.Errorf("%d kills: %d of %d steps", n, killed, len(steps))
		}
	}
}

func TestHarms(t *testing.T) {
	h := Harms{Seed: 3, PerMille: 20, There: 100, Back: 50, Delay: time.Second, Whole: true}
	count := map[string]int{}
	for n := range 10_000 {
		harm := h.Of(n)
		count[harm.How]++
		most := h.There
		if harm.Back {
			most = h.Back
		}
		if harm.After >= most || harm.Wait > h.Delay || harm.How == HarmTruncate && !harm.Back {
			t.Fatalf("%+v", harm)
		}
	}
	for how, want := range map[string]int{HarmDelay: 800, HarmCut: 200, HarmReset: 200, HarmTruncate: 200} {
		if n := count[how]; n < want*3/4 || n > want*5/4 {
			t.Errorf("%d times %s of 10,000, want about %d", n, how, want)
		}
	}
}
