package gate

import (
	"cmp"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Status is what goes on at one key. Its record is the store's to tell.
type Status struct {
	InFlight         []InFlight  // by token
	Unsettled        []Unsettled // by time
	QuarantinedUntil time.Time   // zero when no quarantine holds the key
	Waiting          int
}

// InFlight are the writes with one token that were sent and are not over, or
// the unordered ones.
type InFlight struct {
	Token     tokenstore.Token
	Unordered bool // older than every token; Token says nothing
	Count     int
	Since     time.Time // of the oldest
}

// Unsettled is a write that was lost from sight: it counts as running.
type Unsettled struct {
	Token     tokenstore.Token
	Unordered bool // as in InFlight
	Until     time.Time
	Why       string
}

// Counts are the writes of all keys.
type Counts struct {
	InFlight, Unsettled, Waiting int64
	Cached                       int  // keys of which a mark is in memory
	Quarantine                   bool // one runs, after a crash
}

// Status tells what goes on at key. recorded says whether the store has a
// record of it: only then a quarantine can hold it.
func (g *Gate) Status(key tokenstore.Key, recorded bool) Status {
	var st Status
	s := g.table.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.active[key]
	if g.quarantine.Load() && !s.vouched[key] && (g.unordered.Load() || recorded && (e == nil || !e.durable.fresh)) {
		st.QuarantinedUntil = g.quarantineEnd
	}
	if e == nil {
		return st
	}
	st.Waiting = e.waiting()
	for c := e.registered; c != nil; c = c.next {
		if c.ticket.phase == unsettled {
			st.Unsettled = append(st.Unsettled, c.unsettled())
			continue
		}
		token := c.counted()
		since := time.Unix(0, c.ticket.since)
		at := slices.IndexFunc(st.InFlight, func(f InFlight) bool { return f.Token == token && f.Unordered == c.Unordered })
		if at < 0 {
			st.InFlight = append(st.InFlight, InFlight{Token: token, Unordered: c.Unordered, Count: 1, Since: since})
			continue
		}
		f := &st.InFlight[at]
		f.Count++
		if since.Before(f.Since) {
			f.Since = since
		}
	}
	slices.SortFunc(st.InFlight, func(a, b InFlight) int { return a.Token.Compare(b.Token) })
	slices.SortFunc(st.Unsettled, func(a, b Unsettled) int {
		return cmp.Or(a.Until.Compare(b.Until), a.Token.Compare(b.Token))
	})
	return st
}

// unsettled tells of a claim whose write is unsettled. The lock is held.
func (c *claim) unsettled() Unsettled {
	return Unsettled{c.counted(), c.Unordered, c.ticket.lost.until, c.ticket.lost.why}
}

// counted is the token of a registered claim, zero for an unordered one.
func (c *claim) counted() tokenstore.Token {
	if c.Unordered {
		return tokenstore.Token{}
	}
	return c.Token
}

// Counts tells how many writes are in flight, unsettled and waiting.
func (g *Gate) Counts() Counts {
	c := Counts{Waiting: g.waiting.Load(), Quarantine: g.quarantine.Load()}
	for i := range g.table.shard {
		s := &g.table.shard[i]
		s.mu.Lock()
		c.InFlight += s.open - s.unsettled
		c.Unsettled += s.unsettled
		c.Cached += len(s.active)
		for key := range s.active {
			if s.idle.Contains(key) {
				c.Cached--
			}
		}
		c.Cached += s.idle.Len()
		s.mu.Unlock()
	}
	return c
}

// SettledBy tells when the last of what is unsettled or quarantined now will be
// over; zero for nothing. A write that is in flight may become unsettled for
// longer.
func (g *Gate) SettledBy() (last time.Time) {
	if g.quarantine.Load() {
		last = g.quarantineEnd
	}
	for i := range g.table.shard {
		s := &g.table.shard[i]
		s.mu.Lock()
		for _, e := range s.active {
			for c := e.registered; c != nil; c = c.next {
				if c.ticket.phase == unsettled && c.ticket.lost.until.After(last) {
					last = c.ticket.lost.until
				}
			}
		}
		s.mu.Unlock()
	}
	return last
}
