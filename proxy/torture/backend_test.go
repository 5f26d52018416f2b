package torture

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The instruments themselves: a client straight at the backend, and what the
// history then says.
func TestBackendDoesAsPlanned(t *testing.T) {
	// A busy machine keeps them; patience is for what is to take longer.
	const settle, patience = 800 * time.Millisecond, 2 * time.Second
	for _, c := range []planned{
		{"plain", Write{}, []Kind{Send, Arrive, Apply, Respond, Answer}, 200},
		{"large body", Write{Body: 1 << 20}, []Kind{Send, Arrive, Apply, Respond, Answer}, 200},
		{"expect", Write{Body: 1000, Expect: true}, []Kind{Send, Arrive, Apply, Respond, Answer}, 200},
		{"pieces", Write{Plan: Plan{Pieces: 4, Size: 10}}, []Kind{Send, Arrive, Apply, Respond, Answer}, 200},
		{"skipped", Write{Plan: Plan{Status: 404, Skip: true}}, []Kind{Send, Arrive, Respond, Answer}, 404},
		{"refused early", Write{Plan: Plan{Status: 413, Refuse: true, Skip: true}}, []Kind{Send, Arrive, Respond, Answer}, 413},
		{"reset after", Write{Plan: Plan{End: Reset}}, []Kind{Send, Arrive, Apply, Drop, Gone}, 0},
		{"reset before, applied late", Write{Plan: Plan{End: Reset, Late: settle / 4}}, []Kind{Send, Arrive, Drop, Gone, Apply}, 0},
		{"later than settle is never", Write{Plan: Plan{End: Reset, Late: settle + 200*time.Millisecond}}, []Kind{Send, Arrive, Drop, Gone}, 0},
		{"longer than patience is never", Write{Plan: Plan{Delay: patience + 300*time.Millisecond, Status: 500}}, []Kind{Send, Arrive, Respond, Answer}, 500},
		{"longer than patience is not acknowledged", Write{Plan: Plan{Delay: patience + 300*time.Millisecond}}, []Kind{Send, Arrive, Drop, Gone}, 0},
		{"half-closed, applied late", Write{Plan: Plan{End: HalfClose, Late: settle / 4}}, []Kind{Send, Arrive, Drop, Gone, Apply}, 0},
		{"broken", Write{Plan: Plan{End: Break, Size: 10}}, []Kind{Send, Arrive, Apply, Drop, Answer}, 200},
		{"202 and late", Write{Plan: Plan{Status: 202, Late: settle / 4}}, []Kind{Send, Arrive, Respond, Answer, Apply}, 202},
		{"left, applied at once", Write{Plan: Plan{Hold: true}, Leave: time.Second}, []Kind{Send, Arrive, Gone, Lost, Apply}, 0},
		{"left softly", Write{Plan: Plan{Hold: true, Skip: true}, Leave: time.Second, Softly: true}, []Kind{Send, Arrive, Gone, Lost}, 0},
		{"cut, applied late", Write{Body: 1000, StallAfter: 10, Stall: -1, Leave: time.Second, Plan: Plan{Cut: settle / 4}}, []Kind{Send, Arrive, Gone, Lost, Apply}, 0},
		{"cut, never applied", Write{Body: 1000, StallAfter: 10, Stall: -1, Leave: time.Second}, []Kind{Send, Arrive, Gone, Lost}, 0},
		{"left while it is refused", Write{Leave: 600 * time.Millisecond, Plan: Plan{Status: 413, Refuse: true, Skip: true, Size: 10, Pieces: 4, Pause: 400 * time.Millisecond}}, []Kind{Send, Arrive, Answer, Lost}, 413},
		{"hangs", Write{Plan: Plan{End: Hang, Skip: true}, Patience: time.Second}, []Kind{Send, Arrive, Gone, Lost}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for tries := 1; ; tries++ {
				o := BackendOptions{Settle: settle, Patience: 15 * time.Second}
				if c.write.Plan.Delay > 0 {
					o.Patience = patience
				}
				wrong, late := c.play(t, o)
				if late < settle/4 || wrong == nil || tries == 5 {
					for _, w := range wrong {
						t.Error(w)
					}
					return
				}
				t.Logf("the test itself stood still for %v, so that %v says nothing: once more", late, wrong)
			}
		})
	}
}

// planned is one write and what is to come of it.
type planned struct {
	name   string
	write  Write
	want   []Kind
	status int
}

// play sends the write, and says what was not as planned, and for how long the
// test itself stood still meanwhile: then the backend leaves undone what may have
// come too late.
func (c planned) play(t *testing.T, o BackendOptions) (wrong []string, late time.Duration) {
	t.Helper()
	complain := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	h := NewHistory()
	b, err := StartBackend(h, o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	client := Client{Addr: strings.TrimPrefix(b.URL(), "http://"), H: h, Keep: true}
	defer client.Close()
	w := c.write
	w.ID, w.Key, w.Token = 1, "k", 7
	r := client.Do(w)
	if r.Status != c.status {
		complain("status %d (%v), want %d", r.Status, r.Err, c.status)
	}
	if broken := c.write.Plan.End == Break || c.write.Leave > 0; r.Status != 0 && r.Whole == broken {
		complain("the answer is whole: %v", r.Whole)
	}
	time.Sleep(2 * o.Settle) // what is late, or never
	var got []Kind
	for _, e := range h.Events() {
		if e.ID != 1 || e.Key != "k" || e.Token != 7 {
			complain("event %+v is of no write that was sent", e)
		}
		got = append(got, e.Kind)
	}
	// The client's end and the backend's are not ordered.
	slices.Sort(got)
	want := slices.Sorted(slices.Values(c.want))
	if !slices.Equal(got, want) {
		complain("the history has %v, want %v", got, want)
	}
	return wrong, b.Late()
}

// One connection carries several writes, and each is its own.
func TestBackendKeepsConnections(t *testing.T) {
	h := NewHistory()
	b, err := StartBackend(h, BackendOptions{Settle: time.Second, Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := Client{Addr: strings.TrimPrefix(b.URL(), "http://"), H: h, Keep: true}
	defer c.Close()
	for id := range uint32(3) {
		if r := c.Do(Write{ID: id, Key: "k", Token: 1, Body: 10}); r.Status != 200 {
			t.Fatalf("write %d: status %d (%v)", id, r.Status, r.Err)
		}
		if id > 0 && c.conn == nil {
			t.Error("the connection is not kept")
		}
	}
	if found := Verdict(h.Events(), Limits{Settle: time.Second}); len(found) > 0 {
		t.Error(found)
	}
}

// A client that half closes behind its body still gets its answer.
func TestHalfClosingClient(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	got := make(chan int, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		all, _ := io.ReadAll(c)
		got <- len(all)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}()
	c := Client{Addr: ln.Addr().String(), H: NewHistory()}
	w := Write{ID: 1, Key: "k", Token: 1, Body: 1000, HalfClose: true, Patience: 10 * time.Second}
	if r := c.Do(w); r.Status != 200 || !r.Whole {
		t.Errorf("%+v", r)
	}
	if n := <-got; n != len(w.head())+w.Body {
		t.Errorf("%d bytes came", n)
	}
}

func TestComplaints(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      bool
	}{
		{"race", "{\"level\":\"info\"}\n==================\nWARNING: DATA RACE\nWrite at 0x1", true},
		{"panic", "x\npanic: boom\n\ngoroutine 1", true},
		{"fatal", "fatal error: concurrent map writes\n", true},
		{"panic in a handler", "2026/01/01 http: panic serving 127.0.0.1:1: boom", true},
		{"words in a line", "{\"msg\":\"a panic: is told of, no WARNING: DATA RACE\"}\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Proxy{log: filepath.Join(t.TempDir(), "log")}
			if err := os.WriteFile(p.log, []byte(c.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := p.Complaints(); (got != "") != c.want {
				t.Errorf("complaints %q, want some: %v", got, c.want)
			}
		})
	}
}
