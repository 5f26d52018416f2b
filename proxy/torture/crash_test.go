package torture

import (
	"testing"
	"time"
)

// E and Q: killed with a write in flight. After the start nothing newer is
// sent before settle is over, be it new or a retry of what was on the disk
// already. Keys with nothing to wait for go on at once.
func TestKilledInFlight(t *testing.T) {
	s := newSite(t, Settings{Settle: 6 * time.Second})
	s.ok("quiet", 5)
	s.ok("raised", 1)
	s.ok("raised", 7)
	s.held("e", 1)
	s.held("q", 1)
	s.waits(s.write("q", 2, Plan{})) // 2 is on the disk, and waits

	s.proxy.Kill()
	start := s.restart()
	// Who holds the highest token of a key that was clear goes on; nobody below.
	for _, k := range []struct {
		key   string
		token uint64
	}{{"quiet", 5}, {"raised", 7}, {"new", 1}} {
		asked := s.h.Now()
		if at := s.ok(k.key, k.token); at > start+s.lim.Settle && asked < start+s.lim.Settle/2 { // else a busy machine
			t.Errorf("key %s: token %d was made to wait until %v after the start", k.key, k.token, at-start)
		}
		s.wants(s.do(s.write(k.key, k.token-1, Plan{})), 409, staleToken, "no", "")
	}
	e2, q2, quiet6 := s.write("e", 2, Plan{}), s.write("q", 2, Plan{}), s.write("quiet", 6, Plan{})
	e1 := s.write("e", 1, Plan{})
	reactions := []<-chan Reaction{s.goes(e2), s.goes(q2), s.goes(quiet6)}
	s.raised("e", 2)
	s.wants(s.do(e1), 409, staleToken, "no", "") // refused while the newer one waits
	for i, w := range []Write{e2, q2, quiet6} {
		at := s.arrives(w, 2*prompt)
		if at < start+s.lim.Settle-clockSlack {
			t.Errorf("key %s: token %d arrived %v after the start, want settle (%v) at least", w.Key, w.Token, at-start, s.lim.Settle)
		}
		if at > start+s.lim.Settle+prompt {
			t.Errorf("key %s: token %d arrived only %v after the start", w.Key, w.Token, at-start)
		}
		s.wants(s.get(reactions[i]), 200, "", "yes", "admitted")
	}
	s.judge()
}

// Marks are remembered through many kills, and a refused token stays refused.
func TestRefusedForEver(t *testing.T) {
	s := newSite(t, Settings{Settle: 50 * time.Millisecond})
	s.ok("a", 3)
	for range 3 {
		s.wants(s.do(s.write("a", 2, Plan{})), 409, staleToken, "no", "rejected;reason=stale-token")
		s.proxy.Kill()
		s.restart()
	}
	s.wants(s.do(s.write("a", 2, Plan{})), 409, staleToken, "no", "")
	s.ok("a", 3)
	s.judge()
}

// A write that failed for another reason than its token has raised; the mark
// that its answer implies survives.
func TestWaitingTokenSurvivesKill(t *testing.T) {
	s := newSite(t, Settings{Settle: 200 * time.Millisecond})
	s.held("a", 1)
	w2 := s.write("a", 9, Plan{})
	s.waits(w2)
	s.proxy.Kill()
	s.restart()
	s.wants(s.do(s.write("a", 8, Plan{})), 409, staleToken, "no", "")
	s.staysAway(w2, 300*time.Millisecond) // nobody sends it again by himself
	s.ok("a", 9)
	s.judge()
}
