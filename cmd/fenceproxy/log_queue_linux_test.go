package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// The proxy does not wait for a reader of its log that does not read: it serves
// on, and what there is no room for is counted and told of.
func TestLogThatNobodyDrains(t *testing.T) {
	r := newDiskRig(t, t.TempDir())
	text, err := os.ReadFile(r.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.config, bytes.ReplaceAll(text, []byte("audit: "), []byte("audit: \"\" # ")), 0o600); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	r.startWith(write)
	r.wants("/held", "7", http.StatusNoContent, "")
	long := "/held?" + strings.Repeat("q", 32<<10) // is in the line of each
	for range 50 {
		r.wants(long, "7", http.StatusNoContent, "")
	}
	r.wants("/held", "6", http.StatusConflict, "stale-token")
	if out, code := r.keys("raise", "/held", "9", "--reason", "r"); code != 1 || !strings.Contains(out, "503 audit-unavailable: nothing was changed") {
		t.Errorf("keys raise: %d %s", code, out)
	}
	dropped := r.metric("fenceproxy_log_lines_dropped_total")
	if dropped < 10 {
		t.Errorf("%d lines were dropped", dropped)
	}
	said := make(chan []byte)
	go func() { b, _ := io.ReadAll(read); said <- b }()
	for end := time.Now().Add(scriptPatience); ; time.Sleep(20 * time.Millisecond) {
		if _, code := r.keys("raise", "/held", "9", "--reason", "r"); code == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is read again, and nothing may be changed")
		}
	}
	r.stop(0)
	told := 0
	for line := range bytes.Lines(<-said) {
		var l struct{ Dropped int }
		if err := json.Unmarshal(line, &l); err != nil {
			t.Errorf("%v: %.200q", err, line)
		}
		told += l.Dropped
	}
	if told < dropped {
		t.Errorf("%d lines were dropped, and it is told of %d", dropped, told)
	}
}

// metric is a figure without labels.
func (r *diskRig) metric(name string) (n int) {
	r.Helper()
	resp, err := http.Get("http://" + r.admin + "/metrics")
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, name+" %d\n", &n); err == nil {
			return n
		}
	}
	r.Fatalf("no %s", name)
	return 0
}
