package admin

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An audit file that is a pipe holds nothing up: without a reader it is told of
// at once, with one that takes nothing soon.
func TestAuditPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAudit(path); err == nil || !strings.Contains(err.Error(), "nobody reads") {
		t.Fatalf("a pipe without a reader: %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for n := 0; err == nil; n++ {
		if n > 1<<16 {
			t.Fatal("a pipe has no end")
		}
		err = a.Write(AuditLine{Audit: "raise", Detail: strings.Repeat("x", 1000)})
	}
	if !strings.Contains(err.Error(), "takes nothing") {
		t.Errorf("a pipe that is full: %v", err)
	}
	// Those that come then do not wait one behind the other: a lease would be over
	// before its grant is answered, and one would be granted every 2 s at the most.
	began := time.Now()
	for range 20 {
		if err := a.WriteLease(LeaseLine{Result: "granted", Holder: strings.Repeat("x", 1000)}); err == nil {
			t.Error("a line is written to a pipe that is full")
		}
	}
	if took := time.Since(began); took > 5*pipePatience {
		t.Errorf("20 lines waited %v", took)
	}
	lines := bufio.NewScanner(reader)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"audit":"raise"`) {
		t.Errorf("first line %q (%v)", lines.Text(), lines.Err())
	}
	for range 10 {
		lines.Scan()
	}
	if err := a.Write(AuditLine{Audit: "settle"}); err != nil {
		t.Errorf("a pipe that is read again: %v", err)
	}
}
