package torture

import "fmt"

// Tally counts what a history shows, so that a quiet run is not taken for a
// good one.
type Tally struct {
	Sent      int // writes of which a byte was sent
	Kept      int // 2xx answers
	Stale     int // 409 stale-token
	Overtaken int // of these, writes whose token was the highest when they were sent
	Waited    int // writes that found an older one at the backend and came after it
	Equal     int // writes that arrived while another with their token was there
	Unknown   int // 502 and 504 made by the proxy after sending
	Refused   int // 503
	Late      int // applied after the backend or the proxy broke the connection
	Dropped   int // connections that the backend broke
	Left      int // clients that left
	Starts    int // starts of the process after the first
	// Parted are connections that ended before their answer was whole, be it by
	// their client, the network or the proxy's end: before the write was at the
	// backend, while it was there, after that, and within the answer.
	Parted [4]int
}

// Count makes the tally of a history.
func Count(h []Event) Tally {
	var t Tally
	presented := map[string]uint64{}      // highest token sent
	here := map[string]map[uint32]Event{} // at the backend
	front, behind := map[uint32]bool{}, map[uint32]bool{}
	broken, seen := map[uint32]bool{}, map[uint32]bool{}
	for _, e := range h {
		at := here[e.Key]
		if at == nil {
			at = map[uint32]Event{}
			here[e.Key] = at
		}
		switch e.Kind {
		case Start:
			t.Starts++
		case Send:
			t.Sent++
			front[e.ID] = e.Token >= presented[e.Key]
			presented[e.Key] = max(presented[e.Key], e.Token)
			for _, o := range at {
				behind[e.ID] = behind[e.ID] || o.Token < e.Token
			}
		case Arrive:
			if behind[e.ID] {
				t.Waited++
			}
			for _, o := range at {
				if o.Token == e.Token {
					t.Equal++
					break
				}
			}
			at[e.ID] = e
			seen[e.ID] = true
		case Respond:
			delete(at, e.ID)
		case Drop, Lost:
			delete(at, e.ID)
			broken[e.ID] = true
			if e.Kind == Drop {
				t.Dropped++
			}
		case Apply:
			if broken[e.ID] {
				t.Late++
			}
		case Gone:
			if e.Name == Left {
				t.Left++
			}
			switch _, there := at[e.ID]; {
			case there:
				t.Parted[1]++
			case seen[e.ID]:
				t.Parted[2]++
			default:
				t.Parted[0]++
			}
		case Answer:
			t.answer(e, front[e.ID])
			if !e.Whole {
				t.Parted[3]++
			}
		}
	}
	t.Starts = max(t.Starts-1, 0)
	return t
}

func (t *Tally) answer(e Event, front bool) {
	switch {
	case e.Status >= 200 && e.Status < 300:
		t.Kept++
	case e.Name == staleToken:
		t.Stale++
		if front {
			t.Overtaken++
		}
	case e.Name == "outcome-unknown":
		t.Unknown++
	case e.Status == 503:
		t.Refused++
	}
}

// Quiet names what did not happen at all, though a run is worth nothing
// without it.
func (t Tally) Quiet() []string {
	var quiet []string
	for _, c := range []struct {
		what string
		n    int
	}{
		{"kept", t.Kept}, {"refused as stale", t.Stale}, {"overtaken", t.Overtaken}, {"made to wait", t.Waited},
		{"run together with an equal token", t.Equal}, {"of unknown outcome", t.Unknown}, {"applied late", t.Late},
		{"dropped by the backend", t.Dropped}, {"left by its client", t.Left},
	} {
		if c.n == 0 {
			quiet = append(quiet, fmt.Sprintf("no write was %s", c.what))
		}
	}
	return quiet
}

// Faults counts what was done to the proxy and its network, by what it was.
func Faults(h []Event) map[string]int {
	n := map[string]int{}
	for _, e := range h {
		if e.Kind == Fault {
			n[e.Name]++
		}
	}
	return n
}
