package torture

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// TestRegister: the judge finds what no order explains, and nothing else.
func TestRegister(t *testing.T) {
	stale := func(id uint32, token, high uint64) Event { return ev(Answer, id, token).stale(high) }
	for _, row := range registerRows(stale) {
		t.Run(row.name, func(t *testing.T) {
			if bad := registers(tale(row.h...), testLimits); (len(bad) == 0) != row.good {
				t.Errorf("%q, want it good: %v", bad, row.good)
			}
		})
	}
}

type registerRow struct {
	name string
	h    []Event
	good bool
}

func registerRows(stale func(id uint32, token, high uint64) Event) []registerRow {
	return []registerRow{
		{"one after the other", slices.Concat(write(1, 1), write(2, 2), write(3, 2)), true},
		{"back again", slices.Concat(write(1, 2), write(2, 1)), false},
		{"side by side", []Event{ev(Send, 1, 2), ev(Send, 2, 1), ev(Answer, 1, 2).status(200), ev(Answer, 2, 1).status(200)}, true},
		{"stale by the highest", slices.Concat(write(1, 2), []Event{ev(Send, 2, 1), stale(2, 1, 2)}), true},
		{"stale by one that is over", slices.Concat(write(1, 2), write(2, 3), []Event{ev(Send, 3, 1), stale(3, 1, 2)}), false},
		{"stale by one that came later", slices.Concat([]Event{ev(Send, 1, 1), stale(1, 1, 2)}, write(2, 2)), false},
		{"stale by nothing", []Event{ev(Send, 1, 1), stale(1, 1, 9)}, false},
		{"stale by one without an answer", []Event{ev(Send, 1, 2), ev(Gone, 1, 2), ev(Send, 2, 1), stale(2, 1, 2)}, true},
		{"stale by one that was overtaken", slices.Concat([]Event{ev(Send, 1, 2), ev(Send, 2, 1), stale(2, 1, 2)}, write(3, 3), []Event{stale(1, 2, 3)}), true},
		{"one without an answer that counts no more", slices.Concat([]Event{ev(Send, 1, 2), ev(Gone, 1, 2), ev(Send, 2, 1), stale(2, 1, 2)}, write(3, 1)), false},
		{"a drain timeout counts", slices.Concat([]Event{ev(Send, 1, 2), ev(Answer, 1, 2).status(503).named("drain-timeout")}, write(2, 1)), false},
		{"a key of its own", slices.Concat(write(1, 2), []Event{ev(Send, 2, 1).on("other"), ev(Answer, 2, 1).on("other").status(200)}), true},
	}
}

// register is the same for porcupine, which knows nothing of tokens: it tries
// every order, and takes too long for a whole torture.
var register = porcupine.NondeterministicModel{
	Init: func() []any { return []any{uint64(0)} },
	Step: func(state, input, _ any) []any {
		highest, a := state.(uint64), input.(asked)
		switch {
		case a.saw && highest != a.token, !a.saw && !a.maybe && a.token < highest:
			return nil
		case a.maybe && highest < a.token:
			return []any{highest, a.token}
		case !a.saw && !a.maybe:
			return []any{a.token}
		}
		return []any{highest}
	},
}

// porcupineWrites are so many that porcupine is done in time, one key at a time.
const porcupineWrites = 3000

// porcupine is a second opinion on the beginning of a run's history.
func (o *ordeal) porcupine() {
	o.Helper()
	events, sent := o.h.Events(), 0
	for i, e := range events {
		if e.Kind == Send {
			sent++
		}
		if sent == porcupineWrites {
			events = events[:i]
			break
		}
	}
	count := map[porcupine.CheckResult]int{}
	asked := 0
	for key, all := range asks(events) {
		var ops []porcupine.Operation
		for i, a := range all {
			ops = append(ops, porcupine.Operation{ClientId: i, Input: a, Call: int64(a.call), Return: int64(a.end)})
		}
		asked += len(ops)
		got := porcupine.CheckOperationsTimeout(register.ToModel(), ops, 2*time.Second)
		if got == porcupine.Illegal {
			o.Errorf("key %s: porcupine finds that the answers to %d writes fit no token register", key, len(ops))
		}
		count[got]++
	}
	o.Logf("porcupine has judged %d answers: %d keys %s, %d in doubt", asked, count[porcupine.Ok], porcupine.Ok, count[porcupine.Unknown])
	if count[porcupine.Ok] < o.run.Keys/2 {
		o.Errorf("porcupine came to an end on %d keys only: this shows little", count[porcupine.Ok])
	}
}

// TestRegisterAgrees: the judge and porcupine agree on random small histories.
func TestRegisterAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 5))
	count := map[bool]int{}
	for range 5000 {
		times := rng.Perm(16)
		var all []asked
		var ops []porcupine.Operation
		for i := range 2 + rng.IntN(7) {
			a := asked{token: 1 + rng.Uint64N(4), call: time.Duration(times[2*i%16]), end: time.Duration(times[(2*i+1)%16])}
			a.call, a.end = min(a.call, a.end), max(a.call, a.end)
			switch rng.IntN(4) {
			case 0:
				a.saw = true
			case 1:
				a.maybe = true
			}
			all = append(all, a)
			ops = append(ops, porcupine.Operation{ClientId: i, Input: a, Call: int64(a.call), Return: int64(a.end)})
		}
		want := porcupine.CheckOperations(register.ToModel(), ops)
		if why := misfit(all); (why == "") != want {
			t.Fatalf("%+v: %q, and porcupine says %v", all, why, want)
		}
		count[want]++
	}
	if count[true] < 500 || count[false] < 500 {
		t.Errorf("%v: this shows nothing", count)
	}
}
