package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// A sync that fails ends the process with 1, and the next start is one after an
// unclean stop: nobody knows what is on the disk. It runs within this process,
// where its log can be put on a device that takes all writes and cannot sync.
func TestFailedSyncEndsServe(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer up.Close()
	dir := filepath.Join(t.TempDir(), "store")
	addr, err := torture.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "f.yaml")
	davWrite(t, file, fmt.Sprintf("{upstream: {url: %q}, listen: {address: %q}, admin: {address: \"\"}, store: {embedded: {path: %q}}, rules: [{name: all, path: /*, key: \"{path}\"}]}", up.URL, addr, dir))
	ended := make(chan int, 1)
	go func() { ended <- execute(context.Background(), []string{"serve", "--config", file}) }()
	for end := time.Now().Add(scriptPatience); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get("http://" + addr)
		if err == nil {
			_ = resp.Body.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it does not serve: %v", err)
		}
	}
	if status, _, body := put(t, addr, "/a", "1"); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	null, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	logs := openFiles(t, filepath.Join(dir, "raises."))
	for _, fd := range logs {
		if err := unix.Dup3(null, fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequest(http.MethodPut, "http://"+addr+"/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Fencing-Token", "2")
	// The process may end before this is answered.
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a raise that was not synced: %s", resp.Status)
		}
	}
	select {
	case code := <-ended:
		if code != exitFailed {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(scriptPatience):
		t.Fatal("the process goes on after a failed sync")
	}
	if out := mustStore(t, nil, "verify", "--config", file); !strings.Contains(string(out), "after an unclean stop") {
		t.Errorf("store verify: %s", out)
	}
}

// openFiles are this process's open files whose names begin so, at least one.
func openFiles(t *testing.T, prefix string) (fds []int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(name, prefix) {
			fd, err := strconv.Atoi(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			fds = append(fds, fd)
		}
	}
	if len(fds) == 0 {
		t.Fatalf("no open file is %s…", prefix)
	}
	return fds
}
