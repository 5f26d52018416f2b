package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fullDisk is a way to a full disk under a running proxy.
type fullDisk struct {
	name string
	// dir makes the directory, or skips the test and says why.
	dir func(t *testing.T) string
	// fill leaves no room for pid in dir, and returns what makes room again.
	fill func(t *testing.T, dir string, pid int) (free func())
}

var fullDisks = []fullDisk{
	{"tmpfs of 3 MB", smallFileSystem, fillFileSystem},
	// Needs no rights: nothing that the process writes may grow.
	{"limit on the size of files", (*testing.T).TempDir, func(t *testing.T, _ string, pid int) func() {
		limit := func(size uint64) {
			if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}, nil); err != nil {
				t.Fatal(err)
			}
		}
		limit(1)
		return func() { limit(unix.RLIM_INFINITY) }
	}},
}

func smallFileSystem(t *testing.T) string {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=3m,mode=0700"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here (%v); the limit on the size of files is tried all the same", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir
}

// fillFileSystem takes the last byte; what has room in the page that it has
// keeps that.
func fillFileSystem(t *testing.T, dir string, _ int) func() {
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// A full disk under the store, the audit and the log: raises and changes are
// refused and say why, holders of a token that is on the disk go on, nothing
// that was acknowledged is lost, and all of it works again when there is room.
func TestFullDisk(t *testing.T) {
	for _, d := range fullDisks {
		t.Run(d.name, func(t *testing.T) {
			r := newDiskRig(t, d.dir(t))
			r.start()
			r.wants("/held", "7", http.StatusNoContent, "")
			if out, code := r.keys("raise", "/announced", "3", "--reason", "before"); code != 0 {
				t.Fatalf("keys raise: %d %s", code, out)
			}
			free := d.fill(t, r.dir, r.cmd.Process.Pid)

			// What has a page may fill it; then no raise is taken.
			long, taken, status, body := strings.Repeat("x", 900), 0, 0, ""
			for status = http.StatusNoContent; status == http.StatusNoContent && taken < 5000; taken++ {
				status, _, body = put(t, r.addr, fmt.Sprintf("/%s/%d", long, taken), "5")
			}
			taken-- // the last was refused
			if status != http.StatusServiceUnavailable || !strings.Contains(body, "urn:fenceproxy:problem:store-unavailable") {
				t.Fatalf("after %d raises: %d %s", taken, status, body)
			}
			t.Logf("%d raises were taken after the disk was full", taken)
			r.wants("/held", "7", http.StatusNoContent, "")
			r.wants("/held", "6", http.StatusConflict, "stale-token")
			why := ""
			for range 100 { // the audit's file may have a page, too
				var code int
				why, code = r.keys("raise", "/announced", "3", "--reason", strings.Repeat("full ", 150))
				if code == 1 {
					break
				}
			}
			if !strings.Contains(why, "503 audit-unavailable: nothing was changed, since the audit line cannot be written: ") || !strings.Contains(why, "audit.jsonl") {
				t.Errorf("keys raise says %s", why)
			}
			t.Log(strings.TrimSpace(why))
			if out, code := r.keys("get", "/held"); code != 0 || !strings.Contains(out, "highest  7") {
				t.Errorf("keys get over a full disk: %d %s", code, out)
			}

			free()
			r.until("/"+long+"/new", "5")
			if out, code := r.keys("raise", "/announced", "9", "--reason", "after"); code != 0 {
				t.Fatalf("keys raise: %d %s", code, out)
			}
			linesOf(t, filepath.Join(r.dir, "audit.jsonl"), `"reason":"after"`)
			linesOf(t, filepath.Join(r.dir, "log"), `/new`)

			r.stop(0)
			if out := mustStore(t, nil, "verify", "--config", r.config); !bytes.Contains(out, []byte("sound")) {
				t.Errorf("store verify: %s", out)
			}
			r.start()
			for n := range taken {
				r.wants(fmt.Sprintf("/%s/%d", long, n), "4", http.StatusConflict, "stale-token")
			}
			r.wants("/held", "6", http.StatusConflict, "stale-token")
			r.wants("/announced", "8", http.StatusConflict, "stale-token")
			r.stop(0)
		})
	}
}

// A stop that cannot put its marker on the disk says so, a start that cannot
// take it away refuses, and the start after that waits as after a crash.
func TestStopAndStartOnFullDisk(t *testing.T) {
	r := newDiskRig(t, t.TempDir())
	r.start()
	r.wants("/held", "7", http.StatusNoContent, "")
	linesOf(t, filepath.Join(r.dir, "log"), "/held")
	before := len(r.log())
	if err := unix.Prlimit(r.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}, nil); err != nil {
		t.Fatal(err)
	}
	r.stop(exitFailed)
	if len(r.log()) > before {
		t.Errorf("the disk was not full: the log goes on with %s", r.log()[before:])
	}
	cmd := exec.Command("/bin/sh", "-c", `ulimit -f 0; exec "$@"`, "sh", davProgram(t, "fenceproxy", ""), "serve", "--config", r.config)
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitFailed || !bytes.Contains(out, []byte("store.embedded: ")) || !bytes.Contains(out, []byte("file too large")) {
		t.Errorf("%v: %s", cmd.ProcessState, out)
	}
	r.start()
	r.wants("/held", "6", http.StatusConflict, "stale-token")
	r.until("/held", "8")
	r.stop(0)
	if !bytes.Contains(r.log()[before:], []byte(`"quarantine":true`)) {
		t.Errorf("no quarantine after a stop without its marker: %s", r.log()[before:])
	}
}

// A reload that the store has to remember, and cannot, is refused as a whole; the
// proxy goes on as it was, and takes it when there is room.
func TestReloadOnFullDisk(t *testing.T) {
	for _, d := range fullDisks {
		t.Run(d.name, func(t *testing.T) {
			r := newDiskRig(t, d.dir(t))
			r.start()
			r.wants("/held", "7", http.StatusNoContent, "")
			free := d.fill(t, r.dir, r.cmd.Process.Pid)
			text, err := os.ReadFile(r.config)
			if err != nil {
				t.Fatal(err)
			}
			var more strings.Builder // enough to need a page
			for i := range 300 {
				fmt.Fprintf(&more, ", {name: more%d, path: /more%d/*, key: \"more%d:{*}\"}", i, i, i)
			}
			if err := os.WriteFile(r.config, bytes.Replace(text, []byte("{path}\"}"), []byte("{path}\"}"+more.String()), 1), 0o600); err != nil {
				t.Fatal(err)
			}
			r.readyz(func(said string) bool { return strings.Contains(said, "the configuration was not reloaded") })
			r.wants("/held", "7", http.StatusNoContent, "")
			r.wants("/held", "6", http.StatusConflict, "stale-token")
			free()
			if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			r.readyz(func(said string) bool { return said == "ready\n" })
			r.wants("/more1/a", "1", http.StatusNoContent, "")
			if out, code := r.keys("get", "more1:a"); code != 0 {
				t.Errorf("the new rules are not in force: %d %s", code, out)
			}
			r.stop(0)
		})
	}
}

// A start over a full file system fails and names the file, makes no half of a
// store, and leaves the marker of a clean stop to the next one.
func TestStartOnFullDisk(t *testing.T) {
	dir := smallFileSystem(t)
	r := newDiskRig(t, dir)
	fails := func(file string) {
		t.Helper()
		defer fillFileSystem(t, dir, 0)()
		out, err := exec.Command(davProgram(t, "fenceproxy", ""), "serve", "--config", r.config).CombinedOutput()
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || bytes.Count(out, []byte{'\n'}) != 1 ||
			!bytes.Contains(out, []byte(file)) || !bytes.Contains(out, []byte("no space left on device")) {
			t.Errorf("%v: %s", err, out)
		}
		t.Logf("%s", out)
	}
	fails("tokens.db.new")
	r.start()
	r.wants("/held", "7", http.StatusNoContent, "")
	r.stop(0)
	fails("raises.")
	r.start()
	r.wants("/held", "6", http.StatusConflict, "stale-token")
	r.wants("/held", "8", http.StatusNoContent, "")
	r.stop(0)
	if n := bytes.Count(r.log(), []byte(`"quarantine":false`)); n != 2 {
		t.Errorf("%d starts of 2 found the marker:\n%s", n, r.log())
	}
}

// A volume that became read-only costs a start, and nothing else.
func TestReadOnlyFileSystem(t *testing.T) {
	dir := smallFileSystem(t)
	r := newDiskRig(t, dir)
	r.start()
	r.wants("/held", "7", http.StatusNoContent, "")
	r.stop(0)
	mount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	mount(unix.MS_RDONLY)
	out, err := exec.Command(davProgram(t, "fenceproxy", ""), "serve", "--config", r.config).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("audit: open "+dir+"/audit.jsonl: read-only file system")) {
		t.Errorf("%v: %s", err, out)
	}
	text, err := os.ReadFile(r.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.config, bytes.ReplaceAll(text, []byte("audit: "), []byte("audit: \"\" # ")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command(davProgram(t, "fenceproxy", ""), "serve", "--config", r.config).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("store.embedded: ")) || !bytes.Contains(out, []byte("read-only file system; the user that runs the proxy")) {
		t.Errorf("%v: %s", err, out)
	}
	mount(0)
	r.start()
	r.wants("/held", "6", http.StatusConflict, "stale-token")
	r.wants("/held", "8", http.StatusNoContent, "")
	r.stop(0)
	if bytes.Contains(r.log(), []byte(`"quarantine":true`)) {
		t.Errorf("the marker of the clean stop is gone: %s", r.log())
	}
}

// The proxy outlives who reads its log: it serves on, and only what must be told
// in the audit, which is on the same stream here, is refused.
func TestLogThatNobodyReads(t *testing.T) {
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
	r.startWith(write)
	r.wants("/held", "7", http.StatusNoContent, "")
	read.Close()
	r.wants("/held", "8", http.StatusNoContent, "")
	r.wants("/held", "7", http.StatusConflict, "stale-token")
	if out, code := r.keys("raise", "/held", "9", "--reason", "r"); code != 1 || !strings.Contains(out, "503 audit-unavailable: nothing was changed") {
		t.Errorf("keys raise: %d %s", code, out)
	}
	r.wants("/held", "8", http.StatusNoContent, "")
	r.stop(0)
}

// linesOf holds when the file has a line with what, and at most one line that is
// cut, each that was written when there was room being whole.
func linesOf(t *testing.T, path, what string) {
	t.Helper()
	var bad []string
	for end := time.Now().Add(scriptPatience); ; time.Sleep(10 * time.Millisecond) { // a request's line comes behind its answer
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		bad = nil
		for line := range bytes.Lines(b) {
			if !json.Valid(line) {
				bad = append(bad, fmt.Sprintf("%.200q", line))
			} else if bytes.Contains(line, []byte(what)) {
				found = true
			}
		}
		if found {
			break
		}
		if time.Now().After(end) {
			t.Errorf("%s has no whole line with %s", filepath.Base(path), what)
			break
		}
	}
	if len(bad) > 0 {
		t.Logf("%s has cut lines: %s", filepath.Base(path), bad)
	}
	if len(bad) > 1 {
		t.Errorf("%s has %d lines that are cut", filepath.Base(path), len(bad))
	}
}
