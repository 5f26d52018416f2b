package torture

import (
	"testing"
	"time"
)

// D: what is lost sight of may still be applied: the newer write waits for
// settle, counted from there, and no longer. What is answered in full is over.
func TestUnsettled(t *testing.T) {
	const settle = 3 * time.Second
	late := 400 * time.Millisecond
	for _, c := range []struct {
		name   string
		plan   Plan
		status int    // what the client gets
		prob   string //
		from   Kind   // the backend's event that settle is counted from
		waits  bool
	}{
		{"reset, never applied", Plan{End: Reset, Skip: true}, 502, "outcome-unknown", Drop, true},
		{"reset, applied late", Plan{End: Reset, Late: late}, 502, "outcome-unknown", Drop, true},
		{"timeout", Plan{End: Hang, Late: late}, 504, "outcome-unknown", Lost, true},
		{"broken answer", Plan{End: Break, Size: 1000}, 0, "", Drop, true},
		{"202", Plan{Status: 202, Late: late}, 202, "", Respond, true},
		{"502", Plan{Status: 502, Late: late}, 502, "", Respond, true},
		{"504", Plan{Status: 504, Late: late}, 504, "", Respond, true},
		{"200", Plan{}, 200, "", Respond, false},
		{"404", Plan{Status: 404, Skip: true}, 404, "", Respond, false},
		{"500", Plan{Status: 500}, 500, "", Respond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			settings := Settings{Settle: settle}
			if c.plan.End == Hang {
				settings.Response = 2 * time.Second
			}
			s := newSite(t, settings)
			w1 := s.write("a", 1, c.plan)
			r := s.do(w1)
			switch {
			case c.status == 0: // 502, or a head and then a broken body
				if r.Whole && r.Status == 200 {
					t.Error("a broken answer came as a whole one")
				}
			case c.prob != "":
				s.wants(r, c.status, c.prob, "unknown", "admitted")
			default:
				s.wants(r, c.status, "", "yes", "admitted")
			}
			w2 := s.write("a", 2, Plan{})
			sent := s.h.Now()
			r2 := s.goes(w2)
			at := s.arrives(w2, prompt)
			end, ok := s.h.Find(c.from, w1.ID)
			if !ok {
				t.Fatalf("the backend has no %v", c.from)
			}
			least := settle - clockSlack
			if c.from == Lost { // the backend sees it a little late
				least -= 200 * time.Millisecond
			}
			from := end.At
			if end.Since > 0 { // it may have been seen late
				from = end.Since
			}
			switch wait := at - end.At; {
			case c.waits && at-from < least:
				t.Errorf("the newer write came %v after the %v, want settle (%v)", wait, c.from, settle)
			case c.waits && wait > settle+3*time.Second: // on a busy machine
				t.Errorf("the newer write came only %v after the %v", wait, c.from)
			case !c.waits && at-sent > settle-clockSlack:
				t.Errorf("the newer write took %v, though nothing is unsettled", at-sent)
			}
			s.wants(s.get(r2), 200, "", "yes", "admitted")
			s.judge()
		})
	}
}

// A write that was provably never sent leaves nothing behind.
func TestUnreachable(t *testing.T) {
	s := newSite(t, Settings{})
	s.back.Close()
	for token := uint64(1); token < 4; token++ {
		begin := s.h.Now()
		r := s.do(s.write("a", token, Plan{}))
		s.wants(r, 502, "upstream-unreachable", "no", "admitted")
		if d := r.At - begin; d > 10*time.Second {
			t.Errorf("token %d waited %v for a write that was never sent", token, d)
		}
	}
	s.wants(s.do(s.write("a", 1, Plan{})), 409, staleToken, "no", "")
	s.judge()
}
