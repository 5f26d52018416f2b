package leases

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

const tick = time.Millisecond

func ask(at time.Duration, holder string) torture.Event {
	return torture.Event{Kind: torture.Ask, At: at, Key: "k", Name: holder}
}

func grant(at time.Duration, holder string, token uint64, until time.Duration) torture.Event {
	return torture.Event{Kind: torture.Grant, At: at, Key: "k", Name: holder, Token: token, Until: until, Status: 201}
}

func of(kind torture.Kind, at time.Duration, token uint64) torture.Event {
	return torture.Event{Kind: kind, At: at, Key: "k", Token: token, ID: uint32(token)}
}

func renewed(at time.Duration, token uint64, until time.Duration) torture.Event {
	e := of(torture.Renewed, at, token)
	e.Until = until
	return e
}

func refused(at time.Duration, holder string, token uint64, why string) torture.Event {
	return torture.Event{Kind: torture.Refused, At: at, Key: "k", Name: holder, Token: token, Result: why, Status: 409}
}

func told(holder, what string, code uint16) torture.Event {
	return torture.Event{Kind: torture.Command, Key: "k", Name: holder, Result: what, Status: code}
}

func fault(what, holder string) torture.Event {
	return torture.Event{Kind: torture.Fault, Name: what, Result: holder}
}

func exit(holder string, code uint16, signal string) torture.Event {
	return torture.Event{Kind: torture.Exit, Key: "k", Name: holder, Status: code, Result: signal}
}

// Each judge is shown what it must see, and what it must not take for a breach.
func TestJudges(t *testing.T) {
	start := func(at time.Duration) torture.Event { return torture.Event{Kind: torture.Start, At: at} }
	unfenced := grant(3*tick, "b", 2, 13*tick)
	unfenced.Bare = true
	tests := []struct {
		name    string
		judge   string // that finds it; "" for none
		several bool
		history []torture.Event
	}{
		{"one after the other", "", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), of(torture.Release, 2*tick, 1), grant(3*tick, "b", 2, 13*tick), grant(13*tick, "c", 3, 20*tick)}},
		{"granted before its end", "overlap", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), grant(10*tick, "b", 2, 20*tick)}},
		{"granted before the end of a renewal", "overlap", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), renewed(8*tick, 1, 17*tick), grant(12*tick, "b", 2, 20*tick)}},
		{"renewed when it was given up", "", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), of(torture.Release, 7*tick, 1), renewed(8*tick, 1, 17*tick), grant(12*tick, "b", 2, 20*tick)}},
		{"another's release", "overlap", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), grant(12*tick, "b", 2, 20*tick), of(torture.Release, 13*tick, 1), grant(14*tick, "c", 3, 30*tick)}},
		{"granted too early after a start", "overlap", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), start(5 * tick), grant(12*tick, "b", 2, 25*tick)}},
		{"granted after a start", "", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), start(5 * tick), grant(15*tick, "b", 2, 25*tick)}},
		{"over before the start", "", false, []torture.Event{grant(1*tick, "a", 1, 3*tick), start(5 * tick), grant(6*tick, "b", 2, 25*tick)}},
		{"the start of one of several", "", true, []torture.Event{grant(1*tick, "a", 1, 11*tick), start(5 * tick), grant(12*tick, "b", 2, 25*tick)}},

		{"lost too early", "early", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), refused(9*tick, "a", 1, "lease-lost")}},
		{"lost", "", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), refused(11*tick, "a", 1, "lease-lost")}},
		{"lost by its own release", "", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), of(torture.Release, 2*tick, 1), refused(3*tick, "a", 1, "lease-lost")}},

		{"the counter starts again", "increasing", false, []torture.Event{grant(1*tick, "a", 7, 2*tick), grant(3*tick, "b", 1, 4*tick)}},
		{"a token twice", "increasing", false, []torture.Event{grant(1*tick, "a", 7, 2*tick), of(torture.Release, 1*tick, 7), grant(3*tick, "b", 7, 4*tick)}},

		{"told of when it was over", "", false, []torture.Event{grant(12*tick, "b", 2, 22*tick), grant(13*tick, "a", 1, 11*tick), renewed(14*tick, 2, 24*tick)}},

		{"an older write", "fenced", false, []torture.Event{grant(1*tick, "a", 1, 2*tick), grant(3*tick, "b", 2, 13*tick), of(torture.Apply, 4*tick, 1)}},
		{"an older write before the grant", "", false, []torture.Event{grant(1*tick, "a", 1, 2*tick), of(torture.Apply, 3*tick, 1), grant(3*tick, "b", 2, 13*tick), of(torture.Apply, 4*tick, 2)}},
		{"an older write without a fence", "", false, []torture.Event{grant(1*tick, "a", 1, 2*tick), unfenced, of(torture.Apply, 4*tick, 1)}},

		{"a good end", "", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), told("a", started, 0), told("a", done, 3), exit("a", 3, "")}},
		{"an end that is not the command's", "exits", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), told("a", started, 0), told("a", done, 3), exit("a", 0, "")}},
		{"an end before the command's", "exits", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), told("a", started, 0), exit("a", 0, "")}},
		{"a command without a lease", "exits", false, []torture.Event{told("a", started, 0), told("a", done, 0), exit("a", 0, "")}},
		{"held by another", "", false, []torture.Event{ask(1, "a"), refused(1*tick, "a", 0, "lease-held"), exit("a", 75, "")}},
		{"held by nobody", "exits", false, []torture.Event{ask(1, "a"), exit("a", 75, "")}},
		{"unreachable with a command", "exits", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), told("a", started, 0), exit("a", 69, "")}},
		{"lost without a grant", "exits", false, []torture.Event{exit("a", 76, "")}},
		{"killed", "", false, []torture.Event{fault(lockKilled, "a"), exit("a", 0, "killed")}},
		{"killed by nobody", "exits", false, []torture.Event{fault(lockKilled, "b"), exit("a", 0, "killed")}},
		{"crashed", "exits", false, []torture.Event{fault(lockKilled, "a"), exit("a", 2, "")}},
		{"the command killed", "", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), told("a", started, 0), fault(commandKilled, "a"), exit("a", 137, "")}},
		{"the command killed by the lock", "exits", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), told("a", started, 0), exit("a", 137, "")}},
		{"told to end", "", false, []torture.Event{fault(lockTerminated, "a"), exit("a", 143, "")}},
		{"told before it listens", "", false, []torture.Event{fault(lockTerminated, "a"), exit("a", 0, "terminated")}},
		{"told, and ended without a word", "exits", false, []torture.Event{grant(1*tick, "a", 1, 11*tick), told("a", started, 0), fault(lockTerminated, "a"), exit("a", 0, "terminated")}},
		{"told by nobody", "exits", false, []torture.Event{exit("a", 143, "")}},
	}
	byName := map[string]func([]torture.Event, limits) []string{"overlap": overlap, "early": early, "increasing": increasing, "fenced": fenced, "exits": exits}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, find := range byName {
				found := find(tt.history, limits{ttl: 10 * tick, several: tt.several})
				if want := name == tt.judge; want != (len(found) > 0) {
					t.Errorf("%s finds %q", name, found)
				}
			}
			for _, j := range judges { // and none of them is forgotten
				if tt.judge == "" && len(j.find(tt.history, limits{ttl: 10 * tick, several: tt.several})) > 0 {
					t.Errorf("%s finds something", j.name)
				}
			}
		})
	}
	if len(judges) != len(byName) {
		t.Error("a judge is not tried here")
	}
}

// What the logs have is held against the grants and against itself.
func TestLoggedGrants(t *testing.T) {
	at := time.Unix(1, 0)
	ok := []logged{{at, "k", "a", 1}, {at.Add(20 * tick), "k", "b", 2}}
	for _, tt := range []struct {
		name string
		more logged
		want string
	}{
		{"all is well", logged{at.Add(40 * tick), "k", "c", 3}, ""},
		{"a token twice", logged{at.Add(40 * tick), "k", "c", 2}, "granted twice"},
		{"a lower one later", logged{at.Add(40 * tick), "k", "c", 0}, "logged 40ms after"},
		{"two lines of one moment", logged{at.Add(19 * tick), "k", "c", 3}, ""},
	} {
		found := sameAsLogged([]torture.Event{grant(1*tick, "b", 2, 11*tick)}, append(slices.Clone(ok), tt.more), limits{ttl: 10 * tick})
		if got := strings.Join(found, "; "); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	kill := func(at time.Duration) torture.Event {
		return torture.Event{Kind: torture.Kill, Name: "SIGKILL", At: at}
	}
	unlogged := grant(1*tick, "c", 3, 11*tick)
	for _, tt := range []struct {
		name  string
		h     []torture.Event
		found int
	}{
		{"nobody was killed", []torture.Event{unlogged}, 1},
		{"killed before", []torture.Event{kill(0), unlogged}, 1},
		{"killed just behind it", []torture.Event{unlogged, kill(2 * tick)}, 0},
		{"killed later", []torture.Event{unlogged, kill(unlogged.At + logDelay)}, 1},
	} {
		if found := sameAsLogged(tt.h, ok, limits{ttl: 10 * tick}); len(found) != tt.found {
			t.Errorf("a grant that nobody has logged, %s: %q", tt.name, found)
		}
	}
}
