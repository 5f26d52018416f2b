package torture

import (
	"fmt"
	"strings"
)

// Problem names that the judges know, see the contract's answer table.
const (
	staleToken   = "stale-token"
	shuttingDown = "shutting-down"
)

// raises reports whether an answer says that the write's token was raised.
func (e Event) raises() bool {
	switch e.Name {
	case "": // none, or it was lost on the way
		return !e.unread() && !strings.HasPrefix(e.Result, "rejected")
	case "drain-timeout", "outcome-unknown", "upstream-unreachable":
		return true
	}
	return false
}

// unread reports whether an answer is one of the HTTP parser, to a request that
// came in part: the fence has not seen it.
func (e Event) unread() bool {
	return e.Status == 400 && e.Name == "" && e.Result == "" && e.Forwarded == ""
}

// stale: a 409 is never a guess. The highest that it names is higher than the
// refused token, and some client presented it on this key before.
func stale(h []Event, _ Limits) (bad []string) {
	type mark struct {
		key   string
		token uint64
	}
	presented := map[mark]bool{}
	for i, e := range h {
		switch {
		case e.Kind == Send:
			presented[mark{e.Key, e.Token}] = true
		case e.Kind == Answer && e.Name == staleToken:
			if e.Status != 409 || e.Highest <= e.Token {
				bad = append(bad, fmt.Sprintf("key %s: write %d with token %d was called stale against %d with status %d (event %d)",
					e.Key, e.ID, e.Token, e.Highest, e.Status, i))
			} else if !presented[mark{e.Key, e.Highest}] {
				bad = append(bad, fmt.Sprintf("key %s: write %d was called stale against %d (event %d), which nobody had presented", e.Key, e.ID, e.Highest, i))
			}
		}
	}
	return bad
}

// remembered: a token that reached the backend, or was named as the highest in
// an answer, is on the disk (rules 6 and 8). What is sent with a lower one from
// then on never arrives and is never called admitted, across kill -9 too. Of
// several proxies one may not have heard of the token that another names, and
// its holder waits for that; once it has arrived, all have.
func remembered(h []Event, lim Limits) (bad []string) {
	highest := map[string]uint64{}
	floor := map[uint32]uint64{} // what its sender could have known
	raise := func(key string, token uint64) { highest[key] = max(highest[key], token) }
	for i, e := range h {
		switch e.Kind {
		case Send:
			if e.Token < highest[e.Key] {
				floor[e.ID] = highest[e.Key]
			}
		case Arrive:
			if e.Token < floor[e.ID] {
				bad = append(bad, fmt.Sprintf("key %s: write %d with token %d arrived (event %d), though %d was the highest before it was sent",
					e.Key, e.ID, e.Token, i, floor[e.ID]))
			}
			raise(e.Key, e.Token)
		case Answer:
			if e.Name == staleToken && !lim.Several {
				raise(e.Key, e.Highest)
			}
			if e.Token < floor[e.ID] && e.Status != 409 && e.Status != 503 && !e.unread() {
				bad = append(bad, fmt.Sprintf("key %s: write %d with token %d got status %d, %q (event %d), though %d was the highest before it was sent",
					e.Key, e.ID, e.Token, e.Status, e.Result, i, floor[e.ID]))
			}
		}
	}
	return bad
}
