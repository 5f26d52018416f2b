package torture

import (
	"testing"
	"time"
)

// I: the client leaves after its write was sent. The proxy follows the write
// to its end, and the newer one waits for that, not for settle.
func TestClientLeavesInFlight(t *testing.T) {
	s := newSite(t, Settings{})
	w1 := s.write("a", 1, Plan{Hold: true})
	w1.LeaveOn = s.back.Arrived(w1.ID)
	r1 := s.goes(w1)
	s.arrives(w1, prompt)
	if r := s.get(r1); r.Status != 0 {
		t.Fatalf("the client that was to leave has status %d", r.Status)
	}
	w2 := s.write("a", 2, Plan{})
	r2 := s.waits(w2)
	s.staysAway(w2, 100*time.Millisecond)
	if _, lost := s.h.Find(Lost, w1.ID); lost {
		t.Error("the proxy left the write that its client had left")
	}
	s.back.Release(w1.ID)
	s.arrives(w2, prompt) // settle is 20 s
	s.wants(s.get(r2), 200, "", "yes", "admitted")
	if _, ok := s.h.Find(Apply, w1.ID); !ok {
		t.Error("the write whose client left was not applied")
	}
	s.judge()
}

// The client leaves while its write waits: it is never sent.
func TestClientLeavesWaiting(t *testing.T) {
	for _, c := range []struct {
		name   string
		body   int
		stall  int
		softly bool
	}{
		{"no body", 0, 0, false},
		{"no body, closed", 0, 0, true},
		{"small body", 1000, 0, false},
		{"small body, closed", 1000, 0, true},
		{"large body, begun", 300_000, 90_000, false},
		{"large body, begun, closed", 300_000, 90_000, true},
		{"large body, wholly sent", 90_000, 0, false},
		// The end of the connection stands behind more than the proxy reads
		// ahead, though the system has it: only a look at the socket tells.
		{"large body, wholly sent, closed", 90_000, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, Settings{BodyLimit: "64KiB"})
			w1, r1 := s.held("a", 1)
			w2 := s.write("a", 2, Plan{})
			leave := make(chan struct{})
			w2.Body, w2.StallAfter, w2.Stall, w2.LeaveOn, w2.Softly = c.body, c.stall, -1, leave, c.softly
			r2 := s.goes(w2)
			s.raised("a", 2)
			time.Sleep(200 * time.Millisecond) // what it sends is with the system
			close(leave)
			if r := s.get(r2); r.Status != 0 {
				t.Fatalf("the client that was to leave has status %d, %q", r.Status, r.Problem.Name())
			}
			s.waiting("a", 0) // the proxy has noticed
			s.back.Release(w1.ID)
			s.wants(s.get(r1), 200, "", "yes", "admitted")
			s.staysAway(w2, 300*time.Millisecond)
			s.ok("a", 2) // its token counts, and nothing of it is left behind
			s.judge()
		})
	}
}
