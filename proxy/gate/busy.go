package gate

import (
	"slices"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Busy is a key on which something goes on, in short: Status tells each write.
type Busy struct {
	Key     tokenstore.Key
	Highest tokenstore.Token // on record, as far as is known here; of meaning with Exists
	Exists  bool
	Holder  string // of Highest

	InFlight  int
	Since     time.Time // of the oldest in flight
	Unsettled int
	Until     time.Time // when the last of them is over
	Why       string    // that one was lost from sight
	Waiting   int
}

// Busy is a page, by key, of those that begin with prefix and come behind after,
// and on which writes are in flight, unsettled or waiting at this proxy; next is
// the after of the next page, "" at the end. A page may have less than limit keys
// and not be the last, and what begins or ends meanwhile may be in it or not.
//
// It goes through what the gate has in memory, not through the store. No lock is
// held longer than a shard's keys are looked through, once, without their writes.
func (g *Gate) Busy(prefix string, after tokenstore.Key, limit int) (page []Busy, next tokenstore.Key) {
	limit = tokenstore.PageSize(limit)
	span := busySpan{prefix: prefix, after: after}
	var keys []tokenstore.Key
	for i := range g.table.shard {
		keys = g.table.shard[i].busy(keys, span)
		if len(keys) > 2*limit { // else a page of many keys would sort all of them
			slices.Sort(keys)
			keys = keys[:limit+1]
			span.last = keys[limit]
		}
	}
	slices.Sort(keys)
	if len(keys) > limit {
		keys, next = keys[:limit], keys[limit-1]
	}
	for _, key := range keys {
		if b, ok := g.busyAt(key); ok {
			page = append(page, b)
		}
	}
	return page, next
}

// busySpan is the part of the keys that a page may still have.
type busySpan struct {
	prefix string
	after  tokenstore.Key // behind this one: never the empty key, of writes whose key nobody knows
	last   tokenstore.Key // up to this one; "" for no end
}

func (p busySpan) has(key tokenstore.Key) bool {
	return key > p.after && (p.last == "" || key <= p.last) && strings.HasPrefix(string(key), p.prefix)
}

// BusyNowhere is the same of the writes whose key nobody knows, which no page
// has; ok is false for none.
func (g *Gate) BusyNowhere() (b Busy, ok bool) { return g.busyAt("") }

// QuarantinedUntil is when the quarantine after a crash ends, zero where none
// runs. It holds every key that had a record then, busy or not, and where
// Options.Unordered was set every other, too.
func (g *Gate) QuarantinedUntil() (end time.Time) {
	if g.quarantine.Load() {
		end = g.quarantineEnd
	}
	return end
}

// busy adds the busy keys of the shard to keys.
func (s *shard) busy(keys []tokenstore.Key, span busySpan) []tokenstore.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.active {
		if e.isBusy() && span.has(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// busyAt looks at one key; ok is false where nothing goes on there any more.
func (g *Gate) busyAt(key tokenstore.Key) (b Busy, ok bool) {
	s := g.table.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.active[key]
	if e == nil || !e.isBusy() {
		return b, false
	}
	b = Busy{Key: key, Highest: e.durable.token, Exists: e.durable.exists, Holder: e.durable.holder, Waiting: e.waiting()}
	for c := e.registered; c != nil; c = c.next {
		if c.ticket.phase == unsettled {
			b.Unsettled++
			if c.ticket.lost.until.After(b.Until) {
				b.Until, b.Why = c.ticket.lost.until, c.ticket.lost.why
			}
			continue
		}
		b.InFlight++
		if since := time.Unix(0, c.ticket.since); b.Since.IsZero() || since.Before(b.Since) {
			b.Since = since
		}
	}
	return b, true
}

// isBusy reports whether writes are in flight, unsettled or waiting. The lock is
// held.
func (e *entry) isBusy() bool { return e.registered != nil || e.waiting() > 0 }
