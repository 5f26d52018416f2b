package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A start that waits for a shared store ends by a signal: by the first where the
// store's client heeds that, and always by the second.
func TestStoppedWhileStarting(t *testing.T) {
	heedSignals(t)
	for _, row := range []struct {
		name, store string
		signals     int
		code        int
		says        string
	}{
		{"etcd", `{etcd: {endpoints: ["http://%s"]}}`, 1, 0, `"msg":"stopped before it was ready","signal":"terminated"`},
		{"PostgreSQL", `{postgres: {url: "postgres://u@%s/d"}}`, 1, 0, `"msg":"stopped before it was ready","signal":"terminated"`},
		{"Redis", `{redis: {url: "redis://%s", accept_lost_writes: true}}`, 2, exitBusy, "a second signal came"},
	} {
		t.Run(row.name, func(t *testing.T) {
			mute, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and says nothing
			if err != nil {
				t.Fatal(err)
			}
			defer mute.Close()
			file := filepath.Join(t.TempDir(), "f.yaml")
			text := "upstream: {url: \"http://127.0.0.1:1\"}\nlisten: {address: 127.0.0.1:0}\nadmin: {address: \"\"}\nrules: [{name: all, path: /*, key: \"{path}\"}]\n"
			if err := os.WriteFile(file, []byte(text+"store: "+fmt.Sprintf(row.store, mute.Addr())+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			binary, err := exec.LookPath("fenceproxy") // TestMain puts it there
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			cmd := exec.Command(binary, "serve", "--config", file)
			cmd.Stderr, cmd.Env = &log, append(os.Environ(), "GORACE=atexit_sleep_ms=10")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := mute.Accept(); err != nil {
				t.Error(err)
			}
			for i := range row.signals {
				// Two that come at once may be one.
				sig := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}[i]
				if err := cmd.Process.Signal(sig); err != nil {
					t.Error(err)
				}
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != row.code || !strings.Contains(log.String(), row.says) {
				t.Errorf("exit code %d, want %d, and %q in\n%s", got, row.code, row.says, log.String())
			}
		})
	}
}
