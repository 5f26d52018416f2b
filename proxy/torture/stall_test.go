package torture

import (
	"testing"
	"time"
)

// L1: a large upload that its client stalls holds its key only until somebody
// newer comes: it is cut, and is unsettled from then on.
func TestStalledUploadIsCut(t *testing.T) {
	s := newSite(t, Settings{Settle: time.Second, BodyLimit: "16KiB"})
	w1 := s.write("a", 1, Plan{})
	w1.Body, w1.StallAfter, w1.Stall = 1<<20, 200<<10, -1
	r1 := s.goes(w1)
	s.arrives(w1, prompt)
	cut := s.h.Now()
	w2 := s.write("a", 2, Plan{})
	r2 := s.goes(w2)
	r := s.get(r1)
	s.wants(r, 409, staleToken, "unknown", "rejected;reason=stale-token")
	if r.Problem.Highest != "2" {
		t.Errorf("the cut upload was told the highest %q, want 2", r.Problem.Highest)
	}
	at := s.arrives(w2, prompt)
	if at < cut+s.lim.Settle-clockSlack {
		t.Errorf("the newer write arrived %v after the cut, want settle (%v)", at-cut, s.lim.Settle)
	}
	s.wants(s.get(r2), 200, "", "yes", "admitted")
	s.judge()
}

// A small upload is read before it may hold its key: its client's stall is
// nobody else's.
func TestStalledSmallUploadHoldsNothing(t *testing.T) {
	s := newSite(t, Settings{BodyLimit: "64KiB"})
	s.ok("a", 1)
	w := s.write("a", 2, Plan{})
	rest := make(chan struct{})
	w.Body, w.StallAfter, w.Stall, w.Rest = 10_000, 10, -1, rest
	r := s.goes(w)
	s.staysAway(w, 100*time.Millisecond)
	s.ok("a", 3)
	close(rest)
	s.wants(s.get(r), 409, staleToken, "no", "rejected;reason=stale-token")
	s.judge()
}

// L2: a client that does not read its answer holds its key only until somebody
// newer comes: the proxy then reads the answer to its end by itself, and the
// write is settled.
func TestSlowReaderIsDetached(t *testing.T) {
	s := newSite(t, Settings{})
	w1 := s.write("a", 1, Plan{Size: 32 << 20})
	w1.ReadStall = 5 * time.Second
	r1 := s.goes(w1)
	s.arrives(w1, prompt)
	time.Sleep(300 * time.Millisecond)
	if _, over := s.h.Find(Respond, w1.ID); over {
		t.Fatal("the answer is over although nobody reads it: the test shows nothing")
	}
	w2 := s.write("a", 2, Plan{})
	r2 := s.goes(w2)
	s.arrives(w2, prompt) // settle is 20 s: it is not waited for
	s.wants(s.get(r2), 200, "", "yes", "admitted")
	if r := s.get(r1); r.Whole || r.Status != 200 {
		t.Errorf("the slow reader was given status %d and %d bytes, whole %v: want 200 and a broken answer", r.Status, r.Body, r.Whole)
	}
	s.judge()
}

// A slow reader with nobody behind it gets its whole answer.
func TestSlowReaderInPeace(t *testing.T) {
	s := newSite(t, Settings{})
	w := s.write("a", 1, Plan{Size: 4 << 20})
	w.ReadPause = time.Millisecond
	if r := s.do(w); !r.Whole || r.Body != 4<<20 {
		t.Errorf("%d bytes, whole %v (%v), want all 4 MiB", r.Body, r.Whole, r.Err)
	}
	s.judge()
}
