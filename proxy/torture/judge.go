package torture

import (
	"fmt"
	"slices"
	"time"
)

// Limits are the times that the judges measure against, as configured at the
// proxy under test.
type Limits struct {
	Settle time.Duration
	// Bound is the longest time that a client waits for its answer; 0 is not
	// judged.
	Bound time.Duration
	// Unsettled are the final statuses that do not prove a write over.
	Unsettled map[uint16]bool
	// Several says that several proxies share the store: the start of one tells
	// nothing of the writes of the others, and a raise that one of them has heard
	// of overtakes the others a little later.
	Several bool
}

// Judge holds one promise against a history. Find is pure, and returns one
// sentence for each breach.
type Judge struct {
	Name string
	Find func(h []Event, lim Limits) []string
}

// Judges returns every judge.
func Judges() []Judge {
	return []Judge{
		{"applied tokens never decrease", ordered(appliedInOrder)},
		{"no write is sent or applied twice", once},
		{"a 2xx was applied", acknowledged},
		{"what was not forwarded never arrived", notForwarded},
		{"a stale token is lower than one presented before", ordered(stale)},
		{"a stale token is refused for ever", ordered(remembered)},
		{"what was told is in the store", ordered(kept)},
		{"the answers fit one token register", ordered(registers)},
		{"a newer write waits until every older one is over", ordered(exclusive)},
		{"every client gets its answer", answered},
		{"nobody waits longer than the bound", bounded},
	}
}

// ordered is a judge of writes with a token: the others have no order.
func ordered(find func([]Event, Limits) []string) func([]Event, Limits) []string {
	return func(h []Event, lim Limits) []string {
		bare := func(e Event) bool { return e.Bare }
		if slices.ContainsFunc(h, bare) { // a long history is not copied for nothing
			h = slices.DeleteFunc(slices.Clone(h), bare)
		}
		return find(h, lim)
	}
}

// maxBreaches is how many breaches a judge tells in full.
const maxBreaches = 5

// Verdict runs every judge and returns their breaches, each with its judge's
// name in front; it is empty where all promises were kept.
func Verdict(h []Event, lim Limits) []string {
	var all []string
	for _, j := range Judges() {
		found := j.Find(h, lim)
		for i, s := range found {
			if i == maxBreaches {
				all = append(all, fmt.Sprintf("%s: and %d more", j.Name, len(found)-i))
				break
			}
			all = append(all, j.Name+": "+s)
		}
	}
	return all
}

// appliedInOrder: Safety, the product's one promise. For every key, the tokens
// of the writes that the upstream applies never decrease.
func appliedInOrder(h []Event, _ Limits) (bad []string) {
	top := map[string]Event{}
	for i, e := range h {
		if e.Kind != Apply {
			continue
		}
		if t, ok := top[e.Key]; ok && e.Token < t.Token {
			bad = append(bad, fmt.Sprintf("key %s: write %d with token %d was applied (event %d, %v) after write %d with token %d (%v)",
				e.Key, e.ID, e.Token, i, e.At, t.ID, t.Token, t.At))
			continue
		}
		top[e.Key] = e
	}
	return bad
}

// once: rule 9, story J. One attempt per write, by anyone.
func once(h []Event, _ Limits) (bad []string) {
	arrived, applied := map[uint32]bool{}, map[uint32]bool{}
	for i, e := range h {
		seen := arrived
		switch e.Kind {
		case Arrive:
		case Apply:
			seen = applied
		default:
			continue
		}
		if seen[e.ID] {
			bad = append(bad, fmt.Sprintf("key %s: write %d with token %d: a second %s (event %d)", e.Key, e.ID, e.Token, e.Kind, i))
		}
		seen[e.ID] = true
	}
	return bad
}

// acknowledged: a client that holds a 2xx may rely on its write. It was
// applied before the answer came; once tells of doubles, appliedInOrder of
// higher tokens before it. Statuses that do not prove a write over are no
// acknowledgement.
func acknowledged(h []Event, lim Limits) (bad []string) {
	applied := map[uint32]bool{}
	for i, e := range h {
		switch {
		case e.Kind == Apply:
			applied[e.ID] = true
		case e.Kind == Answer && e.Status >= 200 && e.Status < 300 && !lim.Unsettled[e.Status] && !applied[e.ID]:
			bad = append(bad, fmt.Sprintf("key %s: write %d with token %d has status %d (event %d) and was not applied", e.Key, e.ID, e.Token, e.Status, i))
		}
	}
	return bad
}

// notForwarded: Fencing-Forwarded says no only where the backend never sees
// the write, later on neither; and yes only where it has.
func notForwarded(h []Event, _ Limits) (bad []string) {
	arrived, said := map[uint32]int{}, map[uint32]int{}
	for i, e := range h {
		switch e.Kind {
		case Arrive:
			arrived[e.ID] = i
			if at, ok := said[e.ID]; ok {
				bad = append(bad, fmt.Sprintf("key %s: write %d was told not forwarded (event %d) and arrived later (event %d)", e.Key, e.ID, at, i))
			}
		case Answer:
			at, ok := arrived[e.ID]
			switch {
			case e.Forwarded == "no" && ok:
				bad = append(bad, fmt.Sprintf("key %s: write %d was told not forwarded (event %d) and had arrived (event %d)", e.Key, e.ID, i, at))
			case e.Forwarded == "no":
				said[e.ID] = i
			case e.Forwarded == "yes" && !ok:
				bad = append(bad, fmt.Sprintf("key %s: write %d was told forwarded (event %d) and had not arrived", e.Key, e.ID, i))
			}
		}
	}
	return bad
}

// answered: Liveness, seen by a client that is there and does its part.
func answered(h []Event, _ Limits) (bad []string) {
	for i, e := range h {
		if e.Kind == Gone && e.Name == Silent {
			bad = append(bad, fmt.Sprintf("key %s: write %d with token %d got no answer in time (event %d)", e.Key, e.ID, e.Token, i))
		}
	}
	return bad
}

// bounded: Liveness again. Whatever becomes of a write, its client hears of it in
// time, though older writes stall, and the proxy is stopped and killed.
func bounded(h []Event, lim Limits) (bad []string) {
	sent := map[uint32]time.Duration{}
	for i, e := range h {
		switch e.Kind {
		case Send:
			sent[e.ID] = e.At
		case Answer, Gone:
			at, ok := sent[e.ID]
			if took := e.At - at; ok && lim.Bound > 0 && took > lim.Bound && e.Name != Left {
				bad = append(bad, fmt.Sprintf("key %s: write %d with token %d waited %v (event %d)", e.Key, e.ID, e.Token, took, i))
			}
			delete(sent, e.ID)
		}
	}
	return bad
}
