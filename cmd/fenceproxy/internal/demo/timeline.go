package demo

import (
	"fmt"
	"io"
	"time"
)

// timeline prints what happens, a line each. Times stand in the first column
// and nowhere else; all other text is the same in every run.
type timeline struct {
	out   io.Writer
	start time.Time
	err   error // the first that printing met
}

func newTimeline(out io.Writer) *timeline { return &timeline{out: out, start: time.Now()} }

// row is what somebody did: token is empty where there is none yet, and holds
// is what the file holds afterwards.
type row struct{ who, token, what, holds string }

const columns = "%-6s  %-3s  %-5s  %-60s  %s\n"

func (t *timeline) text(s string) { t.printf("%s", s) }

func (t *timeline) open(title string) {
	t.printf("\n%s\n", title)
	t.printf(columns, "  time", "who", "token", "what happens", "file holds")
}

func (t *timeline) row(r row) {
	at := fmt.Sprintf("%5.1fs", time.Since(t.start).Seconds())
	t.printf(columns, at, r.who, r.token, r.what, r.holds)
}

func (t *timeline) lesson(lines []string) {
	for _, l := range lines {
		t.printf("%s\n", l)
	}
}

func (t *timeline) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.out, format, args...)
	}
}
