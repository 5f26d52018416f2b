package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// diskRig is the real binary with all that it writes in one directory: its
// store, its audit and its log.
type diskRig struct {
	*testing.T
	dir, config, addr, admin string
	cmd                      *exec.Cmd
	ended                    chan struct{}
}

func newDiskRig(t *testing.T, dir string) *diskRig {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(up.Close)
	r := &diskRig{T: t, dir: dir, config: filepath.Join(t.TempDir(), "f.yaml")}
	r.addr, r.admin = freeAddress(t), freeAddress(t)
	text := fmt.Sprintf(`upstream: {url: %s, settle: 1s}
listen: {address: %s}
admin: {address: %s}
store: {embedded: {path: %s/store}}
log: {access: true}
audit: %s/audit.jsonl
rules: [{name: all, path: /*, key: "{path}"}]
`, up.URL, r.addr, r.admin, dir, dir)
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *diskRig) start() {
	r.Helper()
	log, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.Fatal(err)
	}
	r.startWith(log)
}

// startWith starts the proxy with a log, which is closed here.
func (r *diskRig) startWith(log *os.File) {
	r.Helper()
	defer log.Close()
	r.cmd = exec.Command(davProgram(r.T, "fenceproxy", ""), "serve", "--config", r.config)
	r.cmd.Stderr = log
	if err := r.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	ended, cmd := make(chan struct{}), r.cmd
	r.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }()
	r.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	defer func() {
		if r.Failed() {
			b, _ := os.ReadFile(log.Name())
			r.Logf("%v, its log: %s", cmd.ProcessState, b)
		}
	}()
	untilReady(r.T, r.admin)
}

// stop ends the proxy, which must exit with code.
func (r *diskRig) stop(code int) {
	r.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.Fatal(err)
	}
	select {
	case <-r.ended:
	case <-time.After(scriptPatience):
		r.Fatal("the proxy does not end")
	}
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		b, _ := os.ReadFile(filepath.Join(r.dir, "log"))
		r.Fatalf("the proxy ended with %d, want %d; its log:\n%s", got, code, b)
	}
}

func (r *diskRig) log() []byte {
	b, err := os.ReadFile(filepath.Join(r.dir, "log"))
	if err != nil {
		r.Fatal(err)
	}
	return b
}

// keys runs a command on keys and returns what it printed, and its exit code.
func (r *diskRig) keys(args ...string) (string, int) {
	r.Helper()
	cmd := exec.Command(davProgram(r.T, "fenceproxy", ""), append(append([]string{"keys"}, args...), "--admin", r.admin)...)
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &exit) {
		r.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// until retries a write, as a client does that was told so, until it is let
// through.
func (r *diskRig) until(target, token string) {
	r.Helper()
	for end := time.Now().Add(scriptPatience); ; time.Sleep(20 * time.Millisecond) {
		status, _, body := put(r.T, r.addr, target, token)
		if status == http.StatusNoContent {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("%s with token %s still gets %d %s", target, token, status, body)
		}
	}
}

// wants sends a write that must get status and, where it is given, the problem.
func (r *diskRig) wants(target, token string, status int, problem string) {
	r.Helper()
	if got, _, body := put(r.T, r.addr, target, token); got != status || !strings.Contains(body, problem) {
		r.Fatalf("%s with token %s gets %d %s, want %d %s", target, token, got, body, status, problem)
	}
}

// readyz waits until /readyz says what is met.
func (r *diskRig) readyz(met func(said string) bool) {
	r.Helper()
	said := ""
	for end := time.Now().Add(scriptPatience); !met(said); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("/readyz says %q; the log:\n%s", said, r.log())
		}
		resp, err := http.Get("http://" + r.admin + "/readyz")
		if err != nil {
			r.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			r.Fatalf("/readyz answers %s %s %v", resp.Status, b, err)
		}
		said = string(b)
	}
	r.Log(strings.TrimSpace(said))
}
