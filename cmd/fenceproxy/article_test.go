package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// The simulation that the whole thing began with, with its numbers, over the
// built binary and real HTTP: A gets token 1 and pauses, its lease runs out, B
// gets token 2 and writes, A wakes up and writes. Without a fence the storage
// keeps A's data; with one it rejects token 1 < 2 and keeps B's.
func TestArticle(t *testing.T) {
	for _, tt := range []struct {
		path      string // below /open/ no token is asked for
		late      int    // what A is told
		problem   string
		keeps     string
		forwarded int
	}{
		{"/open/file", 204, "", "data of A", 2},
		{"/fenced/file", 409, "stale-token 1 < 2", "data of B", 1},
	} {
		t.Run(strings.Split(tt.path, "/")[1], func(t *testing.T) {
			s := startArticle(t)
			a := s.acquire(`{"holder": "A", "ttl": "300ms"}`)
			b := s.acquire(`{"holder": "B", "ttl": "10s", "wait": "30s"}`) // A is paused
			if a != "1" || b != "2" {
				t.Fatalf("A has token %s, B has token %s", a, b)
			}
			if status, problem := s.write(tt.path, b, "data of B"); status != 204 {
				t.Fatalf("B is told %d %s", status, problem)
			}
			if status, problem := s.write(tt.path, a, "data of A"); status != tt.late || problem != tt.problem {
				t.Errorf("A is told %d %s, want %d %s", status, problem, tt.late, tt.problem)
			}
			if got, n := s.holds(); got != tt.keeps || n != tt.forwarded {
				t.Errorf("the storage keeps %q after %d writes, want %q after %d", got, n, tt.keeps, tt.forwarded)
			}
		})
	}
}

// article is the stage: a storage, and the proxy in front of it.
type article struct {
	*testing.T
	at ready

	mu      sync.Mutex // guards what follows
	content string
	writes  int
}

func startArticle(t *testing.T) *article {
	s := &article{T: t}
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.content = string(body)
		s.writes++
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(storage.Close)
	dir := t.TempDir()
	bin, err := torture.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "fenceproxy.yaml")
	config := fmt.Sprintf(`upstream: {url: %s}
listen: {address: 127.0.0.1:0}
admin: {address: ""}
store: {memory: {}}
leases: {address: 127.0.0.1:0}
log: {format: json}
rules:
  - {name: fenced, path: /fenced/file, key: file}
  - {name: open, path: /open/file, token: none}
`, storage.URL)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "serve", "--config", file)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(log)
	for s.at.Msg != "ready" {
		if !lines.Scan() {
			t.Fatal("the proxy ended before it was ready")
		}
		_ = json.Unmarshal(lines.Bytes(), &s.at)
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	return s
}

// acquire asks for the lease, and returns its token.
func (s *article) acquire(body string) string {
	s.Helper()
	resp, err := http.Post("http://"+s.at.Leases+"/v1/leases/file", "application/json", strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	var lease struct{ Token, Detail string }
	if err := json.NewDecoder(resp.Body).Decode(&lease); err != nil || resp.StatusCode != http.StatusCreated {
		s.Fatalf("%s %s %v", resp.Status, lease.Detail, err)
	}
	return lease.Token
}

// write writes under a token, and returns the status with what was wrong.
func (s *article) write(path, token, data string) (status int, problem string) {
	s.Helper()
	req, err := http.NewRequest(http.MethodPut, "http://"+s.at.Listen+path, strings.NewReader(data))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("X-Fencing-Token", token)
	client := &http.Client{Timeout: time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return resp.StatusCode, ""
	}
	var p struct{ Type, Token, Highest string }
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, fmt.Sprintf("%s %s < %s", strings.TrimPrefix(p.Type, "urn:fenceproxy:problem:"), p.Token, p.Highest)
}

func (s *article) holds() (content string, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content, s.writes
}
