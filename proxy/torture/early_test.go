package torture

import "testing"

// A stale token is refused before its body is read: nothing is uploaded in
// vain, and the answer leaves though the body never comes.
func TestStaleIsRefusedEarly(t *testing.T) {
	s := newSite(t, Settings{BodyLimit: "64KiB"})
	s.ok("a", 5)
	for _, c := range []struct {
		name   string
		body   int
		sent   int
		expect bool
	}{
		{"expect, small", 100, 0, true},
		{"expect, large", 10 << 20, 0, true},
		{"100 kB declared, 3 bytes sent", 100_000, 3, false},
		{"small body declared, 3 bytes sent", 1000, 3, false},
		{"1 GB declared, 3 bytes sent", 1 << 30, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.T = t
			w := s.write("a", 4, Plan{})
			w.Body, w.Expect, w.StallAfter, w.Stall = c.body, c.expect, c.sent, -1
			w.Patience = 2 * prompt
			begin := s.h.Now()
			r := s.do(w)
			s.wants(r, 409, staleToken, "no", "rejected;reason=stale-token")
			if r.Continued {
				t.Error("a 100 Continue came before the refusal")
			}
			if d := r.At - begin; d > prompt {
				t.Errorf("the refusal took %v", d)
			}
		})
	}
	s.T = t
	s.judge()
}

// Expect: 100-continue with a token that is good uploads its body.
func TestExpectContinue(t *testing.T) {
	s := newSite(t, Settings{BodyLimit: "64KiB"})
	for _, body := range []int{100, 1 << 20} {
		w := s.write("a", 1, Plan{})
		w.Body, w.Expect = body, true
		r := s.do(w)
		s.wants(r, 200, "", "yes", "admitted")
		if !r.Continued {
			t.Errorf("%d bytes: no 100 Continue", body)
		}
	}
	s.judge()
}
