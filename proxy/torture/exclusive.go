package torture

import (
	"fmt"
	"time"
)

// clockSlack is what two timers of one machine may differ by.
const clockSlack = 2 * time.Millisecond

// lane follows one key through a history.
type lane struct {
	newest Event             // the arrival with the highest token
	open   map[uint32]*stint // what has arrived and may still be applied
}

// stint is one write at the backend.
type stint struct {
	Event               // its arrival
	end   Kind          // Drop, Lost, or Respond with an unsettled status; Arrive while it runs
	at    time.Duration // when that was
}

// exclusive: rules 3, 7 and 10. When a write arrives, every older write of its
// key is over: answered in full before; or out of sight for settle, counted
// from the break, or from the start of the process where nobody was there to
// count (of several proxies the others are there). This is sharper than the order of what is applied: it sees the window,
// not only the accident.
//
// When the proxy itself gave a write up is known only from the backend, which may
// be late: the third of settle is asked for there during which the backend may
// still apply it.
func exclusive(h []Event, lim Limits) (bad []string) {
	lanes := map[string]*lane{}
	var started time.Duration
	for i, e := range h {
		if e.Kind == Start && !lim.Several {
			started = e.At
		}
		if e.Key == "" {
			continue
		}
		l := lanes[e.Key]
		if l == nil {
			l = &lane{open: map[uint32]*stint{}}
			lanes[e.Key] = l
		}
		switch e.Kind {
		case Arrive:
			if e.Token < l.newest.Token {
				bad = append(bad, fmt.Sprintf("key %s: write %d with token %d arrived (event %d) after write %d with token %d",
					e.Key, e.ID, e.Token, i, l.newest.ID, l.newest.Token))
			} else {
				l.newest = e
			}
			for id, s := range l.open {
				over, why := s.over(e.At, started, lim.Settle)
				if s.Token < e.Token && !over {
					bad = append(bad, fmt.Sprintf("key %s: write %d with token %d arrived (event %d, %v) though write %d with token %d %s",
						e.Key, e.ID, e.Token, i, e.At, id, s.Token, why))
				}
				if over && s.end != Arrive {
					delete(l.open, id)
				}
			}
			l.open[e.ID] = &stint{Event: e, end: Arrive}
		case Respond, Drop, Lost:
			s := l.open[e.ID]
			switch {
			case s == nil || s.end != Arrive: // the first end counts
			case e.Kind == Respond && !lim.Unsettled[e.Status]:
				delete(l.open, e.ID)
			case e.Since > 0:
				s.end, s.at = e.Kind, e.Since
			default:
				s.end, s.at = e.Kind, e.At
			}
		}
	}
	return bad
}

// over reports whether the write can no longer be applied at now, and if not,
// in what state it is.
func (s *stint) over(now, started, settle time.Duration) (bool, string) {
	switch {
	case s.end == Lost:
		return now >= s.at+settle/3, fmt.Sprintf("was given up at %v", s.at)
	case s.end == Drop:
		// At that very moment the proxy may have given it up, a little earlier.
		return now >= s.at+settle-beat-late, fmt.Sprintf("was out of sight (%s) at %v", s.end, s.at)
	case s.end != Arrive:
		return now >= s.at+settle-clockSlack, fmt.Sprintf("was out of sight (%s) at %v", s.end, s.at)
	case started > s.At:
		return now >= started+settle-clockSlack, fmt.Sprintf("was in flight when the process ended, and the next one began at %v", started)
	default:
		return false, fmt.Sprintf("was in flight since %v", s.At)
	}
}
