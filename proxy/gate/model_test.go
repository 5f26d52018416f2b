package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// model says of a list of writes what the protocol promises, as plainly as it
// can be said: no lock, no queue, no copy of a mark, and every rule looked up in
// the list of all writes.
type model struct {
	writes []*modelWrite
	// After a crash: what was on the disk then, and until when it holds writes
	// back (rule 3).
	atBoot        map[tokenstore.Key]tokenstore.Record
	quarantineEnd time.Time
	vouched       map[tokenstore.Key]bool // an operator has ended it for these
	stopping      bool

	unordered bool                   // writes without a token may pass
	forgotten map[tokenstore.Key]int // when, by the number of the last write
	kept      map[Claim]int          // the first write, by its number, whose drain ran out
}

// modelWrite is one write, in whichever life of the proxy it came.
type modelWrite struct {
	name    string
	claims  []Claim
	arrived int // its number
	read    bool
	marks   bool // wants its token recorded and nothing else: Gate.Record
	sent    bool
	sentAt  int       // the number of the last write that had come
	over    bool      // settled
	until   time.Time // where it is lost from sight: then it is over at the latest
	left    bool
	trouble bool // the store held or failed something while it waited
}

// mayLand reports whether the upstream may still apply the write.
func (w *modelWrite) mayLand(now time.Time) bool {
	return w.sent && !w.over && !w.read && (w.until.IsZero() || now.Before(w.until))
}

// token is the write's token on a key, if it has one there.
func (w *modelWrite) token(key tokenstore.Key) (t tokenstore.Token, ok bool) {
	c, ok := w.claim(key)
	return c.Token, ok && !c.Unordered
}

func (w *modelWrite) claim(key tokenstore.Key) (Claim, bool) {
	for _, c := range w.claims {
		if c.Key == key {
			return c, true
		}
	}
	return Claim{}, false
}

// bare reports whether the write has no token at all: it waits for nothing.
func (w *modelWrite) bare() bool {
	return !slices.ContainsFunc(w.claims, func(c Claim) bool { return !c.Unordered })
}

// older returns the writes that w, which comes or waits, has to wait for: those
// with a lower token on a key of it that may still land, and those without one
// that were sent before it came. An attempt whose drain ran out may keep its
// place for the next with its token: surely leaves out what came in between.
func (m *model) older(w *modelWrite, now time.Time, surely bool) (older []*modelWrite) {
	for _, o := range m.writes {
		for _, c := range w.claims {
			their, ok := o.claim(c.Key)
			if !ok || c.Unordered || !o.mayLand(now) {
				continue
			}
			came := w.arrived
			if first, ok := m.kept[c]; ok && surely {
				came = min(came, first)
			}
			if their.Unordered && o.sentAt < came || !their.Unordered && their.Token.Less(c.Token) {
				older = append(older, o)
				break
			}
		}
	}
	return older
}

// quarantined reports whether a quarantine holds w: on a key that had a record
// at boot, unless w has the very token of a record that said clear; on every key
// where writes without a token may have been in flight.
func (m *model) quarantined(w *modelWrite, now time.Time) bool {
	for _, c := range w.claims {
		if !c.Unordered && m.quarantines(c.Key, now) {
			if rec := m.atBoot[c.Key]; m.unordered || rec.Highest != c.Token || !rec.Clear {
				return true
			}
		}
	}
	return false
}

// quarantines reports whether one runs on the key.
func (m *model) quarantines(key tokenstore.Key, now time.Time) bool {
	_, ok := m.atBoot[key]
	return now.Before(m.quarantineEnd) && !m.vouched[key] && (ok || m.unordered)
}

// maySend is rule 8 for a write that the gate has sent just now, on a disk with
// these records.
func (m *model) maySend(w *modelWrite, disk func(tokenstore.Key) tokenstore.Record, now time.Time) error {
	switch older := m.older(w, now, true); {
	case len(older) > 0 && !w.marks:
		return fmt.Errorf("%s was sent, and %v may still land", w.name, older[0].name)
	case m.quarantined(w, now) && !w.marks:
		return fmt.Errorf("%s was sent under quarantine", w.name)
	case w.left && !w.marks: // what is recorded is recorded
		return fmt.Errorf("%s was sent, and its client had left", w.name)
	case m.stopping:
		return fmt.Errorf("%s was sent by a proxy that stops", w.name)
	}
	for _, c := range w.claims {
		if c.Unordered {
			continue
		}
		if rec := disk(c.Key); rec.Highest != c.Token || rec.RaisedAt.IsZero() {
			return fmt.Errorf("%s was sent, and %s has %v on the disk", w.name, c.Key, rec.Highest)
		}
		for _, o := range m.writes {
			if t, ok := o.token(c.Key); ok && o.sent && !o.read && o.sentAt >= m.forgotten[c.Key] && c.Token.Less(t) {
				return fmt.Errorf("%s was sent after %s, which is newer", w.name, o.name)
			}
		}
	}
	return nil
}

// mayWait says what is wrong with a write that neither was sent nor has an
// answer, when nothing moves any more and the store answers.
func (m *model) mayWait(w *modelWrite, disk func(tokenstore.Key) tokenstore.Record, now time.Time) error {
	switch {
	case w.left:
		return fmt.Errorf("%s waits, and its client has left", w.name)
	case m.stopping:
		return fmt.Errorf("%s waits at a proxy that stops", w.name)
	}
	for _, c := range w.claims {
		switch rec := disk(c.Key); {
		case c.Unordered:
		case c.Token.Less(rec.Highest):
			return fmt.Errorf("%s waits, and %s is on the disk: it is stale", w.name, rec.Highest)
		case rec.Highest != c.Token || rec.RaisedAt.IsZero():
			return fmt.Errorf("%s waits, and its token is not on the disk", w.name)
		}
	}
	if w.marks || len(m.older(w, now, false)) == 0 && !m.quarantined(w, now) {
		return fmt.Errorf("%s waits for nothing", w.name)
	}
	return nil
}

// idle is what a clean stop needs (rule 12).
func (m *model) idle(now time.Time) bool {
	for _, w := range m.writes {
		if w.mayLand(now) {
			return false
		}
	}
	return !now.Before(m.quarantineEnd)
}
