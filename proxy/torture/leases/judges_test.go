package leases

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// limits are what the judges have to know beside the history.
type limits struct {
	ttl     time.Duration // of every lease
	several bool          // several servers share the store
}

// judges hold one promise each against a history, and return one sentence for
// each breach.
var judges = []struct {
	name string
	find func([]torture.Event, limits) []string
}{
	{"two grants of a key never overlap", overlap},
	{"a holder is not told lost before its time", early},
	{"the tokens of a key strictly increase", increasing},
	{"no older write is applied once a grant was answered", fenced},
	{"every exit code is one of the contract", exits},
}

// ofWrites are the judges of package torture that do not need to know when a
// client sent what.
var ofWrites = []string{"applied tokens never decrease", "no write is sent or applied twice", "a 2xx was applied",
	"what was not forwarded never arrived", "a newer write waits until every older one is over", "every client gets its answer"}

// verdict runs all of them.
func verdict(h []torture.Event, lim limits) (all []string) {
	tell := func(name string, found []string) {
		for _, breach := range found[:min(len(found), 5)] {
			all = append(all, name+": "+breach)
		}
		if len(found) > 5 {
			all = append(all, fmt.Sprintf("%s: and %d more", name, len(found)-5))
		}
	}
	for _, j := range judges {
		tell(j.name, j.find(h, lim))
	}
	n := 0
	for _, j := range torture.Judges() {
		if slices.Contains(ofWrites, j.Name) {
			n++
			tell(j.Name, j.Find(h, torture.Limits{Settle: settle, Several: lim.several, Unsettled: map[uint16]bool{202: true, 502: true, 504: true}}))
		}
	}
	if n != len(ofWrites) {
		all = append(all, "a judge of writes is gone")
	}
	return all
}

// term is one lease, from its grant on.
type term struct {
	torture.Event
	until    time.Duration // its holder may believe in it for so long
	released bool          // it was given up, at until
}

// terms follows the lease of each key. A holder that has asked for a renewal
// counts from before that passed here, so Until of what was answered is no
// earlier than the end that it believes in: no server may let another one in
// before. A DELETE ends it as it passes, whatever is answered. A store of one
// server says nothing of renewals, so a lease that was held when the server
// ended lives its full TTL again from the next start.
func terms(h []torture.Event, lim limits, see func(i int, e torture.Event, last *term)) {
	last := map[string]*term{}
	for i, e := range h {
		switch e.Kind {
		case torture.Start:
			for _, t := range last {
				if !lim.several && !t.released && t.until > e.At {
					t.until = max(t.until, e.At+lim.ttl)
				}
			}
			continue
		case torture.Grant, torture.Renewed, torture.Release, torture.Refused, torture.Apply:
		default:
			continue
		}
		if toldLate(e) {
			continue
		}
		t := last[e.Key]
		see(i, e, t)
		switch {
		case e.Kind == torture.Grant:
			last[e.Key] = &term{Event: e, until: e.Until}
		case t == nil || t.Token != e.Token || t.released:
		case e.Kind == torture.Renewed:
			t.until = max(t.until, e.Until)
		case e.Kind == torture.Release:
			t.until, t.released = e.At, true
		}
	}
}

// toldLate is a grant whose time was over when its answer passed here: this
// process or its machine stood still, and the next grant may have passed before
// it. What is in the servers' logs shows their order.
func toldLate(e torture.Event) bool { return e.Kind == torture.Grant && e.At >= e.Until }

// overlap: a grant is not answered before the one before it was released, or
// its holder's time is over.
func overlap(h []torture.Event, lim limits) (bad []string) {
	terms(h, lim, func(i int, e torture.Event, t *term) {
		if e.Kind == torture.Grant && t != nil && e.At < t.until {
			bad = append(bad, fmt.Sprintf("key %s: token %d was granted to %s (event %d, %v) though %s has token %d until %v",
				e.Key, e.Token, e.Name, i, e.At, t.Name, t.Token, t.until))
		}
	})
	return bad
}

// early: what is promised for a time is not taken away within it.
func early(h []torture.Event, lim limits) (bad []string) {
	terms(h, lim, func(i int, e torture.Event, t *term) {
		if e.Kind == torture.Refused && e.Result == "lease-lost" && t != nil && t.Token == e.Token && !t.released && e.At < t.until {
			bad = append(bad, fmt.Sprintf("key %s: %s was told that token %d is lost (event %d, %v), and had it until %v", e.Key, e.Name, e.Token, i, e.At, t.until))
		}
	})
	return bad
}

// increasing: across releases, expiry, kills and servers.
func increasing(h []torture.Event, _ limits) (bad []string) {
	top := map[string]torture.Event{}
	for i, e := range h {
		if e.Kind != torture.Grant || toldLate(e) {
			continue
		}
		if t, ok := top[e.Key]; ok && e.Token <= t.Token {
			bad = append(bad, fmt.Sprintf("key %s: token %d was granted to %s (event %d, %v) after token %d to %s (%v)",
				e.Key, e.Token, e.Name, i, e.At, t.Token, t.Name, t.At))
			continue
		}
		top[e.Key] = e
	}
	return bad
}

// fenced: grant = raise + drain. What a holder reads once it has the lease
// stays as it is until it writes.
func fenced(h []torture.Event, _ limits) (bad []string) {
	top := map[string]torture.Event{}
	for i, e := range h {
		switch {
		case e.Kind == torture.Grant && !e.Bare && e.Token > top[e.Key].Token:
			top[e.Key] = e
		case e.Kind == torture.Apply && e.Token < top[e.Key].Token:
			bad = append(bad, fmt.Sprintf("key %s: write %d with token %d was applied (event %d, %v) after token %d was granted to %s (%v)",
				e.Key, e.ID, e.Token, i, e.At, top[e.Key].Token, top[e.Key].Name, top[e.Key].At))
		}
	}
	return bad
}

// logDelay is how long a line may be on its way to the log.
const logDelay = time.Second

// logged is a grant as a server's log has it.
type logged struct {
	at     time.Time
	key    string
	holder string
	token  uint64
}

// sameAsLogged: the servers have logged every grant that was answered, and for
// no key a token twice or a lower one later. Two servers' lines are written a
// little after what they tell of, so only those of one lease's time apart are
// compared. A line that waited behind another one is lost with a server that is
// killed.
func sameAsLogged(h []torture.Event, all []logged, lim limits) (bad []string) {
	slices.SortFunc(all, func(a, b logged) int { return cmp.Or(cmp.Compare(a.key, b.key), a.at.Compare(b.at)) })
	known := map[string]bool{}
	for i, l := range all {
		id := fmt.Sprintf("%s %d", l.key, l.token)
		if known[id] {
			bad = append(bad, fmt.Sprintf("key %s: token %d was granted twice", l.key, l.token))
		}
		known[id] = true
		for _, m := range all[:i] {
			if m.key == l.key && m.token >= l.token && l.at.Sub(m.at) > lim.ttl/2 {
				bad = append(bad, fmt.Sprintf("key %s: token %d for %s was logged %v after token %d for %s", l.key, l.token, l.holder, l.at.Sub(m.at), m.token, m.holder))
			}
		}
	}
	killed := func(from time.Duration) bool {
		return slices.ContainsFunc(h, func(e torture.Event) bool {
			return e.Kind == torture.Kill && e.Name == "SIGKILL" && e.At >= from && e.At < from+logDelay
		})
	}
	for _, e := range h {
		if e.Kind == torture.Grant && !known[fmt.Sprintf("%s %d", e.Key, e.Token)] && !killed(e.At) {
			bad = append(bad, fmt.Sprintf("key %s: token %d for %s is in no log", e.Key, e.Token, e.Name))
		}
	}
	return bad
}
