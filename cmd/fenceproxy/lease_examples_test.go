package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// TestLeaseExamples runs the clients of deploy/examples/lease against the real
// binary: each writes, outlives its TTL by renewing, and stops when its token is
// stale, when it was paused for too long, and when another holds the lease.
func TestLeaseExamples(t *testing.T) {
	for _, program := range []string{"sh", "python3", "node"} {
		t.Run(program, func(t *testing.T) {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Fatalf("%v: this test needs the real one, run make deps", err)
			}
			if program == "sh" {
				if _, err := exec.LookPath("curl"); err != nil {
					t.Fatalf("%v: the shell's example needs it, run make deps", err)
				}
			}
			file := filepath.Join(moduleRoot(t), "deploy", "examples", "lease", "lease."+map[string]string{"sh": "sh", "python3": "py", "node": "mjs"}[program])
			t.Parallel()
			out, err := exec.Command(path, file, "account:4.2").CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.HasPrefix(string(out), "usage: lease.") || strings.Count(string(out), "\n") != 1 {
				t.Errorf("without a URL: %v, %s", err, out)
			}
			s := newExampleStage(t)

			e := s.start(t, path, file)
			e.writes(t, "one", "200")
			first := s.look(t)
			// Two lives later the lease is still the same.
			for end := time.Now().Add(2 * exampleTTL); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if now := s.look(t); now != first {
					t.Fatalf("the lease was %s and is %s", first, now)
				}
			}
			e.writes(t, "two", "200")
			e.ends(t, 0)
			if now := s.look(t); now != "404" {
				t.Errorf("the lease was not given back: %s", now)
			}
			s.holds(t, "two")

			e = s.start(t, path, file)
			e.writes(t, "three", "200")
			if status := s.put(t, "900", "from another"); status != 200 {
				t.Fatalf("%d", status)
			}
			e.writes(t, "stale", "409")
			e.ends(t, 76)
			s.holds(t, "from another")

			e = s.start(t, path, file)
			e.writes(t, "four", "200")
			e.signal(t, syscall.SIGSTOP)
			for s.look(t) != "404" {
				time.Sleep(20 * time.Millisecond)
			}
			e.signal(t, syscall.SIGCONT)
			_, _ = io.WriteString(e.in, "late\n")
			e.ends(t, 76)
			s.holds(t, "four")

			s.take(t)
			s.start(t, path, file, "WAIT=0").ends(t, 75)
			s.holds(t, "four")
		})
	}
}

const (
	exampleTTL   = 5 * time.Second
	exampleToken = "0123456789abcdef-lease"
)

// exampleStage is a proxy with leases in front of an API with one value.
type exampleStage struct {
	proxy, leases string
	token         string // the file of the bearer token for leases

	mu    sync.Mutex
	value string
}

func newExampleStage(t *testing.T) *exampleStage {
	s := &exampleStage{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.value = string(b)
	}))
	t.Cleanup(api.Close)
	s.token = filepath.Join(t.TempDir(), "token")
	davWrite(t, s.token, exampleToken)
	addrs := servertest.Run(t, 2, func(addrs []string) *exec.Cmd {
		config := fmt.Sprintf(`upstream: {url: %q}
listen: {address: %q}
admin: {address: ""}
store: {memory: {}}
leases: {address: %q, token_file: %q}
rules: [{name: accounts, path: "/accounts/{id}", key: "account:{id}"}]
`, api.URL, addrs[0], addrs[1], s.token)
		cmd := exec.Command("fenceproxy", "serve", "--config", "fenceproxy.yaml")
		cmd.Dir = t.TempDir()
		davWrite(t, filepath.Join(cmd.Dir, "fenceproxy.yaml"), config)
		return cmd
	})
	s.proxy, s.leases = addrs[0], "http://"+addrs[1]
	return s
}

func (s *exampleStage) lease() string {
	return s.leases + "/v1/leases/" + url.PathEscape("account:4.2")
}

// look is the lease's token, or 404.
func (s *exampleStage) look(t *testing.T) string {
	resp := s.ask(t, http.MethodGet, "")
	defer resp.Body.Close()
	var l struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&l); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode)
	}
	return "token " + l.Token
}

// take takes the lease for another.
func (s *exampleStage) take(t *testing.T) {
	resp := s.ask(t, http.MethodPost, `{"ttl":"1m"}`)
	if resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status)
	}
	_ = resp.Body.Close()
}

// ask asks the lease server, by its token.
func (s *exampleStage) ask(t *testing.T, method, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, s.lease(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+exampleToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// put writes with any token.
func (s *exampleStage) put(t *testing.T, token, text string) int {
	req, err := http.NewRequest(http.MethodPut, "http://"+s.proxy+"/accounts/4.2", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Fencing-Token", token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// holds compares what the API has in the end.
func (s *exampleStage) holds(t *testing.T, want string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.value != want {
		t.Errorf("the API holds %q, want %q", s.value, want)
	}
}

// leaseExample is a client that runs, in a process group of its own.
type leaseExample struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *os.File
}

func (s *exampleStage) start(t *testing.T, program, file string, env ...string) *leaseExample {
	t.Helper()
	e := &leaseExample{cmd: exec.Command(program, file, "account:4.2", "http://"+s.proxy+"/accounts/4.2")}
	e.cmd.Env = append(os.Environ(), "FENCEPROXY_SERVER="+s.leases, "FENCEPROXY_LEASES_TOKEN_FILE="+s.token, "FENCEPROXY_TOKEN_FILE=/dev/null", fmt.Sprint("TTL=", exampleTTL.Seconds()))
	e.cmd.Env = append(e.cmd.Env, env...)
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	e.stderr, e.cmd.Stderr = stderr, stderr
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	e.out = bufio.NewReader(out)
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := e.cmd.Process.Pid
	stuck := time.AfterFunc(lockPatience, func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	t.Cleanup(func() {
		if stuck.Stop() {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // what it has left behind
		}
		_ = stderr.Close()
	})
	return e
}

// writes sends a line and compares the status that is printed.
func (e *leaseExample) writes(t *testing.T, line, status string) {
	t.Helper()
	_, _ = io.WriteString(e.in, line+"\n")
	got, err := e.out.ReadString('\n')
	if err != nil || got != status+"\n" {
		t.Fatalf("%s: printed %q, want %s: %v\n%s", line, got, status, err, e.said())
	}
}

func (e *leaseExample) ends(t *testing.T, code int) {
	t.Helper()
	if code == 0 {
		_ = e.in.Close()
	}
	err := e.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || e.cmd.ProcessState.ExitCode() != code {
		t.Errorf("%v, want exit code %d\n%s", err, code, e.said())
	}
	if text := e.said(); code == 0 && text != "" {
		t.Errorf("standard error: %s", text)
	}
}

func (e *leaseExample) signal(t *testing.T, s syscall.Signal) {
	if err := syscall.Kill(-e.cmd.Process.Pid, s); err != nil {
		t.Fatal(err)
	}
}

func (e *leaseExample) said() string {
	b, _ := os.ReadFile(e.stderr.Name())
	return string(b)
}
