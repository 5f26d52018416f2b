package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const nobody = 65534

// unprivileged is the binary, to be run by one whom file modes hold back, with a
// directory of its own.
func unprivileged(t *testing.T) (dir string, command func(args ...string) *exec.Cmd) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fenceproxy-files-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Chmod(filepath.Join(dir, "shut"), 0o700)
		_ = os.RemoveAll(dir)
	})
	b, err := os.ReadFile(davProgram(t, "fenceproxy", ""))
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "fenceproxy")
	if err := os.WriteFile(binary, b, 0o700); err != nil {
		t.Fatal(err)
	}
	root := os.Getuid() == 0
	if root {
		for _, path := range []string{dir, binary} {
			if err := os.Chown(path, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir, func(args ...string) *exec.Cmd {
		cmd := exec.Command(binary, args...)
		cmd.Dir = dir
		if root {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		return cmd
	}
}

// Whatever file may not be read or written is named, with the setting that
// names it, before anything is served; check finds those that it reads, too.
func TestFilesWithoutPermission(t *testing.T) {
	dir, command := unprivileged(t)
	own := func(name string, err error) {
		t.Helper()
		if err == nil && os.Getuid() == 0 {
			err = os.Chown(filepath.Join(dir, name), nobody, nobody)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		own(name, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	write("shut.pem", "x", 0)
	write("shut.token", strings.Repeat("x", 32), 0)
	write("shut.yaml", "x", 0)
	write("shut.jsonl", "", 0o400)
	own("pipe", syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	own("shut", os.Mkdir(filepath.Join(dir, "shut"), 0o500))

	for _, tt := range []struct {
		setting string // of the configuration, with its value
		value   string
		want    string // is in what is said
		code    int    // of serve
		check   int    // and of check
	}{
		{"", "", "shut.yaml: cannot be read: permission denied", exitUsage, exitUsage},
		{"listen", "{address: 127.0.0.1:0, tls: {cert_file: shut.pem, key_file: shut.pem}}", "listen.tls.cert_file: open shut.pem: permission denied", exitUsage, exitUsage},
		{"admin", "{address: 127.0.0.1:0, tls: {cert_file: shut.pem, key_file: shut.pem}}", "admin.tls.cert_file: open shut.pem: permission denied", exitUsage, exitUsage},
		{"admin", "{address: 127.0.0.1:0, token_file: shut.token}", "admin.token_file: open shut.token: permission denied", exitUsage, exitUsage},
		{"leases", "{address: 127.0.0.1:0, token_file: shut.token}", "leases.token_file: open shut.token: permission denied", exitUsage, exitUsage},
		{"upstream", "{url: https://127.0.0.1:1, tls: {ca_file: shut.pem}}", "upstream.tls.ca_file: shut.pem cannot be read: permission denied", exitUsage, exitUsage},
		{"store", `{etcd: {endpoints: ["https://127.0.0.1:1"], tls: {ca_file: shut.pem}}}`, "store.etcd.tls.ca_file: shut.pem cannot be read: permission denied", exitUsage, exitUsage},
		{"store", `{etcd: {endpoints: ["http://127.0.0.1:1"], username: u, password_file: shut.token}}`, "store.etcd.password_file: shut.token cannot be read: permission denied", exitUsage, exitUsage},
		// Nobody writes into the pipe, and nothing waits for it.
		{"upstream", "{url: https://127.0.0.1:1, tls: {ca_file: pipe}}", "upstream.tls.ca_file: pipe cannot be read: it is no file", exitUsage, exitUsage},
		{"listen", "{address: 127.0.0.1:0, tls: {cert_file: pipe, key_file: pipe}}", "listen.tls.cert_file: pipe is no file", exitUsage, exitUsage},
		{"admin", "{address: 127.0.0.1:0, token_file: pipe}", "admin.token_file: pipe is no file", exitUsage, exitUsage},
		{"store", `{etcd: {endpoints: ["http://127.0.0.1:1"], username: u, password_file: pipe}}`, "store.etcd.password_file: pipe cannot be read: it is no file", exitUsage, exitUsage},
		{"audit", "shut.jsonl", "audit: open shut.jsonl: permission denied", exitFailed, 0},
		{"store", "{embedded: {path: shut}}", "store.embedded: open shut/lock: permission denied; the user that runs the proxy", exitFailed, 0},
		{"store", "{embedded: {path: shut/data}}", "store.embedded: the directory of the store cannot be made: mkdir shut/data: permission denied; the user that runs the proxy", exitFailed, 0},
	} {
		t.Run(tt.want, func(t *testing.T) {
			file := "shut.yaml"
			if tt.setting != "" {
				file = "file.yaml"
				settings := map[string]string{"upstream": "{url: http://127.0.0.1:1}", "listen": "{address: 127.0.0.1:0}", "admin": `{address: ""}`,
					"store": "{memory: {}}", "rules": `[{name: all, path: /*, key: "{path}"}]`}
				settings[tt.setting] = tt.value
				text := ""
				for setting, value := range settings {
					text += fmt.Sprintf("%s: %s\n", setting, value)
				}
				write(file, text, 0o600)
			}
			for sub, code := range map[string]int{"serve": tt.code, "check": tt.check} {
				cmd := command(sub, "--config", file)
				out, _ := cmd.CombinedOutput()
				if got := cmd.ProcessState.ExitCode(); got != code || code != 0 && !strings.Contains(string(out), tt.want) {
					t.Errorf("%s ended with %d, want %d, and said\n%s", sub, got, code, out)
				}
			}
		})
	}
}
