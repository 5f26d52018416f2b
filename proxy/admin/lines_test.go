package admin

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// narrow takes so many bytes, and then none until it is given room.
type narrow struct {
	bytes.Buffer
	room int
}

var errNoRoom = errors.New("no room")

func (n *narrow) Write(p []byte) (int, error) {
	took := min(len(p), n.room)
	n.room -= took
	n.Buffer.Write(p[:took])
	if took < len(p) {
		return took, errNoRoom
	}
	return took, nil
}

func TestLineBehindOneThatWasCut(t *testing.T) {
	out := &narrow{room: 7}
	l := NewLines(out)
	for _, w := range []struct {
		line string
		room int // before it
		ok   bool
	}{{"one\n", 0, true}, {"two__\n", 0, false}, {"three\n", 0, false}, {"four\n", 1, false}, {"five\n", 100, true}, {"six\n", 0, true}} {
		out.room += w.room
		if _, err := l.Write([]byte(w.line)); (err == nil) != w.ok {
			t.Errorf("%q: %v", w.line, err)
		}
	}
	if got := out.String(); got != "one\ntwo\nfive\nsix\n" {
		t.Errorf("wrote %q", got)
	}
}

// The line at which the process of before ended is not gone on with.
func TestAuditBehindALineThatWasCut(t *testing.T) {
	for before, want := range map[string]int{"": 1, "{}\n": 2, "{}\n{\"half": 3} {
		path := filepath.Join(t.TempDir(), "audit")
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := OpenAudit(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.Write(AuditLine{Audit: "raise"}), a.Close()); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		if len(lines) != want || !strings.HasPrefix(lines[len(lines)-1], `{"time":`) {
			t.Errorf("behind %q: %q", before, lines)
		}
	}
}
