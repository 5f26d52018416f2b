package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// asked is one write as the token register of its key sees it, at one moment
// between call and end. A write that was admitted has raised the token. One that
// was refused as stale has seen a higher one, and may have raised its own before
// (it was overtaken). Of the others, and of those without an answer, nobody knows.
type asked struct {
	token     uint64 // raised, or seen
	call, end time.Duration
	saw       bool // token was seen, and not raised
	maybe     bool // perhaps it did nothing
}

// registers judges linearizability: of every key, all answers fit one register
// that has one token at each moment, which is the highest raised so far.
func registers(h []Event, lim Limits) (bad []string) {
	if lim.Several {
		return nil // where a raise waits elsewhere the older holder still writes
	}
	all := asks(h)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if why := misfit(all[key]); why != "" {
			bad = append(bad, fmt.Sprintf("key %s: the answers to %d writes do not fit one token register: %s", key, len(all[key]), why))
		}
	}
	return bad
}

// asks returns what each key's register was asked. A raise that may have been
// counts only until its token was seen for the last time: later it would explain
// nothing.
func asks(h []Event) map[string][]asked {
	type mark struct {
		key   string
		token uint64
	}
	sent := map[uint32]time.Duration{}
	lastSeen := map[mark]time.Duration{}
	for _, e := range h {
		if e.Kind == Send {
			sent[e.ID] = e.At
		} else if e.Kind == Answer && e.Highest > 0 {
			lastSeen[mark{e.Key, e.Highest}] = e.At
		}
	}
	all := map[string][]asked{}
	raised := map[uint32]bool{}
	for _, e := range h {
		if e.Kind != Answer {
			continue
		}
		switch {
		case e.raises():
			raised[e.ID] = true
			all[e.Key] = append(all[e.Key], asked{token: e.Token, call: sent[e.ID], end: e.At})
		case e.Name == staleToken && e.Highest > 0:
			all[e.Key] = append(all[e.Key], asked{token: e.Highest, call: sent[e.ID], end: e.At, saw: true})
		}
	}
	for _, e := range h {
		if e.Kind == Send && !raised[e.ID] && lastSeen[mark{e.Key, e.Token}] > e.At {
			all[e.Key] = append(all[e.Key], asked{token: e.Token, call: e.At, end: lastSeen[mark{e.Key, e.Token}], maybe: true})
		}
	}
	return all
}

// misfit says why no order of the moments explains what was asked, "" where one
// does. Tokens only grow, so that the order is that of the tokens: each moment is
// put as early as the lower ones let it, and the first one of a token raises it.
func misfit(all []asked) string {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b asked) int { return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.call, b.call)) })
	now := time.Duration(-1)
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].token == all[0].token {
			n++
		}
		same := all[:n]
		all = all[n:]
		if !slices.ContainsFunc(same, func(a asked) bool { return !a.maybe }) {
			continue
		}
		first := slices.IndexFunc(same, func(a asked) bool { return !a.saw && a.end >= now })
		if first < 0 {
			return fmt.Sprintf("token %d was not raised when it was the highest", same[0].token)
		}
		now = max(now, same[first].call)
		start := now
		for _, a := range same {
			if a.maybe {
				continue
			}
			if a.end < start {
				return fmt.Sprintf("what was asked from %v to %v fits token %d, and that was not the highest before %v", a.call, a.end, a.token, start)
			}
			now = max(now, a.call)
		}
	}
	return ""
}
