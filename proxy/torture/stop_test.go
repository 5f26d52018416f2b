package torture

import (
	"testing"
	"time"
)

// stops sends SIGTERM and wants the exit code.
func (s *site) stops(code int) {
	s.Helper()
	s.proxy.Terminate()
	s.over(code)
}

func (s *site) over(code int) {
	s.Helper()
	got, err := s.proxy.Wait(2 * prompt)
	if err != nil {
		s.Fatal(err)
	}
	if got != code {
		s.Errorf("exit code %d, want %d", got, code)
	}
}

// A clean stop leaves a marker: nothing is quarantined after it. The marker
// counts once (F): after a kill it does not stand for the stop before.
func TestCleanStop(t *testing.T) {
	s := newSite(t, Settings{Settle: 3 * time.Second})
	s.ok("a", 1)
	s.stops(0)
	s.restart()
	if s.quarantined("a") {
		t.Error("quarantined after a clean stop")
	}
	s.ok("a", 2)
	s.held("a", 2)
	s.proxy.Kill()
	start := s.restart()
	w3 := s.write("a", 3, Plan{})
	r3 := s.goes(w3)
	if at := s.arrives(w3, prompt); at < start+s.lim.Settle-clockSlack {
		t.Errorf("the marker of the stop before last was taken for one: token 3 arrived %v after the start", at-start)
	}
	s.wants(s.get(r3), 200, "", "yes", "admitted")
	s.judge()
}

// A stop waits for what is in flight; who still waits is told, and not sent.
func TestStopWaits(t *testing.T) {
	s := newSite(t, Settings{Settle: 3 * time.Second})
	w1, r1 := s.held("a", 1)
	w2 := s.write("a", 2, Plan{})
	r2 := s.waits(w2)
	s.proxy.Terminate()
	s.wants(s.get(r2), 503, shuttingDown, "no", "rejected;reason=shutting-down")
	select {
	case <-s.proxy.Exited():
		t.Fatal("the proxy ended with a write in flight")
	case <-time.After(200 * time.Millisecond):
	}
	s.back.Release(w1.ID)
	s.wants(s.get(r1), 200, "", "yes", "admitted")
	s.over(0)
	s.staysAway(w2, 0)
	s.restart()
	if s.quarantined("a") {
		t.Error("quarantined after a clean stop")
	}
	s.ok("a", 2)
	s.judge()
}

// F2: a stop that cannot wait for the end leaves no marker and says so.
func TestStopInFlight(t *testing.T) {
	s := newSite(t, Settings{Settle: 2 * time.Second, Shutdown: 300 * time.Millisecond})
	s.held("a", 1)
	s.stops(3)
	start := s.restart()
	w2 := s.write("a", 2, Plan{})
	r2 := s.goes(w2)
	if at := s.arrives(w2, prompt); at < start+s.lim.Settle-clockSlack {
		t.Errorf("token 2 arrived %v after the start, want settle", at-start)
	}
	s.wants(s.get(r2), 200, "", "yes", "admitted")
	s.judge()
}

// What is unsettled counts for the stop like what is in flight.
func TestStopUnsettled(t *testing.T) {
	s := newSite(t, Settings{Settle: 20 * time.Second, Shutdown: 300 * time.Millisecond})
	s.wants(s.do(s.write("a", 1, Plan{End: Reset})), 502, "outcome-unknown", "unknown", "admitted")
	s.stops(3)
	s.judge()
}

// F3: a stop during the quarantine of the start before is not a clean one, and
// one that may wait for its end is.
func TestStopInQuarantine(t *testing.T) {
	s := newSite(t, Settings{Settle: 6 * time.Second, Shutdown: 300 * time.Millisecond})
	s.held("a", 1)
	s.proxy.Kill()
	s.restart()
	s.stops(3)
	start := s.restart()
	w2 := s.write("a", 2, Plan{})
	r2 := s.goes(w2)
	if at := s.arrives(w2, prompt); at < start+s.lim.Settle-clockSlack {
		t.Errorf("token 2 arrived %v after the second start, want settle", at-start)
	}
	s.wants(s.get(r2), 200, "", "yes", "admitted")
	s.stops(0)
	s.judge()
}
