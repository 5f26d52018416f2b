package gate

import (
	"fmt"
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
	stopping      bool
}

// modelWrite is one write, in whichever life of the proxy it came.
type modelWrite struct {
	name    string
	claims  []Claim
	read    bool
	sent    bool
	over    bool      // settled
	until   time.Time // where it is lost from sight: then it is over at the latest
	left    bool
	trouble bool // the store held or failed something while it waited
}

// mayLand reports whether the upstream may still apply the write.
func (w *modelWrite) mayLand(now time.Time) bool {
	return w.sent && !w.over && !w.read && (w.until.IsZero() || now.Before(w.until))
}

// token is the write's token on a key.
func (w *modelWrite) token(key tokenstore.Key) (t tokenstore.Token, ok bool) {
	for _, c := range w.claims {
		if c.Key == key {
			return c.Token, true
		}
	}
	return t, false
}

// older returns the writes with a lower token on a key of w that may still land.
func (m *model) older(w *modelWrite, now time.Time) (older []*modelWrite) {
	for _, o := range m.writes {
		for _, c := range w.claims {
			if t, ok := o.token(c.Key); ok && t.Less(c.Token) && o.mayLand(now) {
				older = append(older, o)
				break
			}
		}
	}
	return older
}

// quarantined reports whether a quarantine holds w: on a key that had a record
// at boot, unless w has the very token of a record that said clear.
func (m *model) quarantined(w *modelWrite, now time.Time) bool {
	if !now.Before(m.quarantineEnd) {
		return false
	}
	for _, c := range w.claims {
		if rec, ok := m.atBoot[c.Key]; ok && (rec.Highest != c.Token || !rec.Clear) {
			return true
		}
	}
	return false
}

// maySend is rule 8 for a write that the gate has sent just now, on a disk with
// these records.
func (m *model) maySend(w *modelWrite, disk func(tokenstore.Key) tokenstore.Record, now time.Time) error {
	switch older := m.older(w, now); {
	case len(older) > 0:
		return fmt.Errorf("%s was sent, and %v may still land", w.name, older[0].name)
	case m.quarantined(w, now):
		return fmt.Errorf("%s was sent under quarantine", w.name)
	case w.left:
		return fmt.Errorf("%s was sent, and its client had left", w.name)
	case m.stopping:
		return fmt.Errorf("%s was sent by a proxy that stops", w.name)
	}
	for _, c := range w.claims {
		if rec := disk(c.Key); rec.Highest != c.Token || rec.RaisedAt.IsZero() {
			return fmt.Errorf("%s was sent, and %s has %v on the disk", w.name, c.Key, rec.Highest)
		}
		for _, o := range m.writes {
			if t, ok := o.token(c.Key); ok && o.sent && !o.read && c.Token.Less(t) {
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
		case c.Token.Less(rec.Highest):
			return fmt.Errorf("%s waits, and %s is on the disk: it is stale", w.name, rec.Highest)
		case rec.Highest != c.Token || rec.RaisedAt.IsZero():
			return fmt.Errorf("%s waits, and its token is not on the disk", w.name)
		}
	}
	if len(m.older(w, now)) == 0 && !m.quarantined(w, now) {
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
