package main

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestWebDAV drives the real binary with curl in front of a legacy API that
// really writes: nginx, whose files are looked at behind the proxy's back.
// Every subtest has a share, which is a resource, for itself.
func TestWebDAV(t *testing.T) {
	site := newDavSite(t)
	for _, story := range []struct {
		name string
		run  func(*davSite)
	}{
		{"a fresh PUT creates the file", davFresh},
		{"a stale PUT changes nothing", davStale},
		{"a stale MOVE changes nothing", davStaleMove},
		{"what changes something is a write", davWrites},
		{"reads pass untouched", davReads},
		{"a write that no rule covers stays out", davNotCovered},
		{"a large upload arrives whole", davLarge},
		{"a stale upload is refused before it is sent", davExpect},
		{"kill -9 forgets nothing", davKill}, // the last: it begins a quarantine
	} {
		t.Run(story.name, func(t *testing.T) {
			story.run(site.on(t))
		})
	}
}

// wantAdmitted fails where a write did not reach nginx and come back.
func (s *davSite) wantAdmitted(a davAnswer, status int) {
	s.Helper()
	if a.status != status || a.header.Get("Fencing-Result") != "admitted" || a.header.Get("Fencing-Forwarded") != "yes" {
		s.Fatalf("got %v; want %d, admitted, yes", a, status)
	}
}

// wantRefused fails where a request was not refused with this problem, or
// reached nginx.
func (s *davSite) wantRefused(a davAnswer, status int, problem string) {
	s.Helper()
	if a.status != status || a.problem() != problem || a.header.Get("Fencing-Result") != "rejected;reason="+problem || a.header.Get("Fencing-Forwarded") != "no" {
		s.Fatalf("got %v; want %d %s, not forwarded", a, status, problem)
	}
}

// wantFile fails where nginx does not have exactly this file.
func (s *davSite) wantFile(path, want string) {
	s.Helper()
	if got, ok := s.read(path); !ok || got != want {
		s.Fatalf("%s has %d bytes %.40q (there: %v), want %d bytes %.40q", path, len(got), got, ok, len(want), want)
	}
}

func (s *davSite) wantNone(path string) {
	s.Helper()
	if _, err := os.Stat(s.file(path)); !os.IsNotExist(err) {
		s.Fatalf("%s is there (%v)", path, err)
	}
}

func davFresh(s *davSite) {
	s.wantAdmitted(s.put("/shares/fresh/a/b.txt", 1, "first\n"), http.StatusCreated)
	s.wantFile("/shares/fresh/a/b.txt", "first\n")
	s.wantAdmitted(s.put("/shares/fresh/a/b.txt", 1, "second\n"), http.StatusNoContent)
	s.wantFile("/shares/fresh/a/b.txt", "second\n")
	if asked := s.asked(); !strings.Contains(asked, "PUT /shares/fresh/a/b.txt token=1 status=201\n") {
		s.Errorf("nginx was asked:\n%s", asked)
	}
}

func davStale(s *davSite) {
	const path = "/shares/stale/report.txt"
	s.wantAdmitted(s.put(path, 5, "written by the holder of 5\n"), http.StatusCreated)
	before, err := os.Stat(s.file(path))
	if err != nil {
		s.Fatal(err)
	}
	s.wantRefused(s.put(path, 4, "written by the holder of 4\n"), http.StatusConflict, "stale-token")
	s.wantFile(path, "written by the holder of 5\n")
	// nginx replaces a file by another one: this is still the same.
	after, err := os.Stat(s.file(path))
	if err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		s.Errorf("the file is another one or was touched: %v, %v", after, err)
	}
	if strings.Contains(s.asked(), path+" token=4") {
		s.Error("the stale write reached nginx")
	}
}

func davStaleMove(s *davSite) {
	s.wantAdmitted(s.put("/shares/move/from", 5, "from"), http.StatusCreated)
	s.wantAdmitted(s.put("/shares/move/to", 5, "to"), http.StatusCreated)
	a := s.do("MOVE", "/shares/move/from", 4, "-H", "Destination: http://"+s.proxy+"/shares/move/to")
	s.wantRefused(a, http.StatusConflict, "stale-token")
	s.wantFile("/shares/move/from", "from")
	s.wantFile("/shares/move/to", "to")
}

// davWrites: every method that changes something, WebDAV's own ones too, needs
// a token, and passes with one.
func davWrites(s *davSite) {
	destination := "Destination: http://" + s.proxy + "/shares/writes/"
	for _, step := range []struct {
		method, path string
		args         []string
		status       int
		there, gone  string // afterwards
	}{
		{"MKCOL", "/shares/writes/", nil, http.StatusCreated, "/shares/writes", ""},
		{"MKCOL", "/shares/writes/dir/", nil, http.StatusCreated, "/shares/writes/dir", ""},
		{"PUT", "/shares/writes/dir/a", []string{"--data-binary", "text"}, http.StatusCreated, "/shares/writes/dir/a", ""},
		{"COPY", "/shares/writes/dir/a", []string{"-H", destination + "b"}, http.StatusNoContent, "/shares/writes/b", ""},
		{"MOVE", "/shares/writes/b", []string{"-H", destination + "c"}, http.StatusNoContent, "/shares/writes/c", "/shares/writes/b"},
		{"DELETE", "/shares/writes/c", nil, http.StatusNoContent, "", "/shares/writes/c"},
		{"DELETE", "/shares/writes/dir/", nil, http.StatusNoContent, "", "/shares/writes/dir"},
	} {
		s.Run(step.method+" "+step.path, func(t *testing.T) {
			s := s.on(t)
			s.wantRefused(s.do(step.method, step.path, 0, step.args...), http.StatusPreconditionRequired, "token-required")
			s.wantAdmitted(s.do(step.method, step.path, 3, step.args...), step.status)
			// Looked at behind the next answer: nginx writes a line behind its own.
			if asked := s.asked(); strings.Contains(asked, step.method+" "+step.path+" token=-") {
				s.Errorf("nginx was asked without a token:\n%s", asked)
			}
			if step.there != "" {
				if _, err := os.Stat(s.file(step.there)); err != nil {
					s.Error(err)
				}
			}
			if step.gone != "" {
				s.wantNone(step.gone)
			}
		})
	}
}

func davReads(s *davSite) {
	const path = "/shares/reads/a.txt"
	s.wantAdmitted(s.put(path, 9, "hello\n"), http.StatusCreated)
	for _, read := range []struct {
		name, method string
		token        uint64
		body         string
	}{
		{"GET", http.MethodGet, 0, "hello\n"},
		{"GET with a stale token", http.MethodGet, 1, "hello\n"},
		{"HEAD", http.MethodHead, 0, ""},
	} {
		a := s.do(read.method, path, read.token)
		if a.status != http.StatusOK || read.body != "" && a.body != read.body || a.header.Get("Content-Length") != "6" {
			s.Errorf("%s: %v, want 200 and the file", read.name, a)
		}
		for name := range a.header {
			if strings.HasPrefix(http.CanonicalHeaderKey(name), "Fencing-") {
				s.Errorf("%s: the answer has %s, though no fence touched it", read.name, name)
			}
		}
	}
}

func davNotCovered(s *davSite) {
	s.wantRefused(s.put("/elsewhere/a.txt", 1, "x"), http.StatusForbidden, "write-not-covered")
	s.wantNone("/elsewhere")
}

// davLarge uploads far more than max_body_buffer (64 KiB), so that it streams.
func davLarge(s *davSite) {
	var text strings.Builder
	for n := 0; text.Len() < 1<<20; n++ {
		text.WriteString(strings.Repeat(string(rune('a'+n%26)), 1+n%97))
		text.WriteByte('\n')
	}
	want := text.String()
	s.wantAdmitted(s.put("/shares/large/fixed", 1, want), http.StatusCreated)
	s.wantFile("/shares/large/fixed", want)
	s.wantAdmitted(s.put("/shares/large/chunked", 1, want, "-H", "Transfer-Encoding: chunked"), http.StatusCreated)
	s.wantFile("/shares/large/chunked", want)
}

// davExpect: the client asks first, and is told before it uploads a byte.
func davExpect(s *davSite) {
	expect := []string{"-H", "Expect: 100-continue", "--expect100-timeout", "20"}
	text := strings.Repeat("x", 1<<20)
	a := s.put("/shares/expect/a", 5, text, expect...)
	s.wantAdmitted(a, http.StatusCreated)
	if a.uploaded != len(text) {
		s.Errorf("%d bytes were uploaded with a good token, want %d", a.uploaded, len(text))
	}
	a = s.put("/shares/expect/a", 4, strings.Repeat("y", 1<<20), expect...)
	s.wantRefused(a, http.StatusConflict, "stale-token")
	if a.uploaded != 0 {
		s.Errorf("%d bytes were uploaded with a stale token", a.uploaded)
	}
	s.wantFile("/shares/expect/a", text)
}

// davKill: what was recorded before a kill counts after it. Nobody knows then
// what was in flight, so a new holder waits (here longer than drain_timeout),
// but the current one, whose record says that nothing older was, goes on.
func davKill(s *davSite) {
	const path = "/shares/kill/a.txt"
	s.wantAdmitted(s.put(path, 7, "before\n"), http.StatusCreated)
	s.server.Kill()
	if err := s.server.Start(); err != nil {
		s.Fatal(err)
	}
	s.wantRefused(s.put(path, 6, "stale\n"), http.StatusConflict, "stale-token")
	s.wantFile(path, "before\n")

	a := s.put(path, 7, "after\n")
	s.wantAdmitted(a, http.StatusNoContent)
	if a.took > davSettle/2 {
		s.Errorf("the current holder waited %v", a.took)
	}
	s.wantFile(path, "after\n")
	s.wantAdmitted(s.put("/shares/never-seen/a.txt", 1, "new\n"), http.StatusCreated)

	start := time.Now()
	a = s.put(path, 8, "the next holder\n")
	s.wantRefused(a, http.StatusServiceUnavailable, "drain-timeout")
	if a.header.Get("Retry-After") == "" || time.Since(start) < time.Second {
		s.Errorf("after %v: %v %v; want a Retry-After, after drain_timeout", time.Since(start), a, a.header)
	}
	s.wantFile(path, "after\n")
	s.wantRefused(s.put(path, 7, "overtaken\n"), http.StatusConflict, "stale-token") // 8 counts already
}
