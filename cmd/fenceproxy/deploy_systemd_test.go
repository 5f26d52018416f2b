package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// TestDeploySystemd asks systemd's own tools about the units, and looks at what
// they cannot know: that the units fit the configuration beside them.
func TestDeploySystemd(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is Linux's alone")
	}
	analyze := davProgram(t, "systemd-analyze", "systemd")
	binary := davProgram(t, "fenceproxy", "") // TestMain puts it there
	dir := t.TempDir()
	service := filepath.Join(dir, "fenceproxy.service")
	text := string(readDeploy(t, "systemd", "fenceproxy.service"))
	davWrite(t, service, strings.ReplaceAll(text, "/usr/local/bin/fenceproxy", binary)) // which verify looks for
	socket := filepath.Join(dir, "fenceproxy.socket")
	davWrite(t, socket, string(readDeploy(t, "systemd", "fenceproxy.socket")))
	for _, args := range [][]string{
		{"verify", "--man=no", service, socket},
		{"security", "--offline=true", "--no-pager", "--threshold=20", service}, // 2.0 of 10
	} {
		out, err := exec.Command(analyze, args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}

	cfg := checkDeployed(t, "systemd/fenceproxy.yaml", string(readDeploy(t, "systemd", "fenceproxy.yaml")))
	unit := readUnit(t, text)
	if stop, err := time.ParseDuration(unit("TimeoutStopSec") + "s"); err != nil || stop < cfg.ShutdownTimeout+10*time.Second {
		t.Errorf("TimeoutStopSec %v (%v) is not well above shutdown_timeout %v", stop, err, cfg.ShutdownTimeout)
	}
	if start, err := time.ParseDuration(unit("TimeoutStartSec") + "s"); err != nil || start < 2*openTimeout {
		t.Errorf("TimeoutStartSec %v (%v) does not leave a shared store its %v", start, err, openTimeout)
	}
	if got := cfg.Store.Embedded.Path; filepath.Dir(got) != "/var/lib/"+unit("StateDirectory") {
		t.Errorf("the store is %s, and the proxy may write to /var/lib/%s", got, unit("StateDirectory"))
	}
	for setting, want := range map[string]string{
		"Type": "notify", "Restart": "on-failure", "KillSignal": "SIGTERM", "KillMode": "mixed", "SendSIGHUP": "no", "ExecReload": "/bin/kill -HUP $MAINPID",
		"RestartPreventExitStatus": "2 3", // exitUsage, exitBusy
		"ExecStart":                "/usr/local/bin/fenceproxy serve --config /etc/fenceproxy/fenceproxy.yaml",
	} {
		if got := unit(setting); got != want {
			t.Errorf("%s=%s, want %s", setting, got, want)
		}
	}
	if got := readUnit(t, string(readDeploy(t, "systemd", "fenceproxy.socket")))("ListenStream"); got != cfg.Listen.Address {
		t.Errorf("ListenStream=%s, and listen.address is %s", got, cfg.Listen.Address)
	}
}

// TestDeploySystemdJob: the job asks a listener that there is, for a key that a
// rule can make.
func TestDeploySystemdJob(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is Linux's alone")
	}
	dir, text := t.TempDir(), string(readDeploy(t, "systemd", "report.service"))
	binary := davProgram(t, "fenceproxy", "")
	service, timer := filepath.Join(dir, "report.service"), filepath.Join(dir, "report.timer")
	davWrite(t, service, strings.ReplaceAll(text, "/usr/local/bin/fenceproxy", binary))
	davWrite(t, timer, string(readDeploy(t, "systemd", "report.timer")))
	if out, err := exec.Command(davProgram(t, "systemd-analyze", "systemd"), "verify", "--man=no", service, timer).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	unit := readUnit(t, text)
	if got := unit("SuccessExitStatus"); got != strconv.Itoa(exitHeld) {
		t.Errorf("SuccessExitStatus=%s, and lock exits with %d where another has the lease", got, exitHeld)
	}

	cfg := checkDeployed(t, "systemd/fenceproxy-leases.yaml", string(readDeploy(t, "systemd", "fenceproxy-leases.yaml")))
	if cfg.ShutdownTimeout != checkDeployed(t, "systemd/fenceproxy.yaml", string(readDeploy(t, "systemd", "fenceproxy.yaml"))).ShutdownTimeout {
		t.Errorf("shutdown_timeout %v is not that of fenceproxy.yaml, which the unit fits", cfg.ShutdownTimeout)
	}
	lock := newLock()
	args := strings.Fields(unit("ExecStart"))
	if err := lock.ParseFlags(args[2:]); err != nil || args[1] != "lock" {
		t.Fatalf("%q: %v", args, err)
	}
	if err := lock.ValidateArgs(lock.Flags().Args()); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	if servers, err := lock.Flags().GetStringSlice("server"); err != nil || !slices.Equal(servers, []string{"http://" + cfg.Leases.Address}) {
		t.Errorf("the job asks %v (%v), and leases.address is %s", servers, err, cfg.Leases.Address)
	}
	key := lock.Flags().Arg(0)
	var report config.Report
	if p := plan(cfg, &report); len(p.table.Owners(tokenstore.Key(key))) != 1 {
		t.Errorf("no rule can make the key %s", key)
	}
}

// readUnit returns a look-up of what a unit sets, which must be set once.
func readUnit(t *testing.T, text string) func(setting string) string {
	return func(setting string) string {
		t.Helper()
		var found []string
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, setting+"="); ok {
				found = append(found, strings.TrimSpace(value))
			}
		}
		if len(found) != 1 {
			t.Errorf("%s is set to %q, want one value", setting, found)
			return ""
		}
		return found[0]
	}
}

// TestDeployDockerfile: the image is one static binary, for a user that is not
// root, who owns the directory that every configuration keeps its store in.
func TestDeployDockerfile(t *testing.T) {
	stages := strings.Split(string(readDeploy(t, "Dockerfile")), "\nFROM ")
	last := strings.Split(strings.TrimSpace(stages[len(stages)-1]), "\n")
	for _, want := range []string{"scratch", "USER 65532:65532", "COPY --from=build --chown=65532:65532 /store /var/lib/fenceproxy",
		`ENTRYPOINT ["/fenceproxy"]`, `CMD ["serve", "--config", "/etc/fenceproxy/fenceproxy.yaml"]`} {
		if !slices.Contains(last, want) {
			t.Errorf("the last stage has no line %q:\n%s", want, strings.Join(last, "\n"))
		}
	}
	mod, err := os.ReadFile(filepath.Join(moduleRoot(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(mod), "\ngo ")
	version, _, _ = strings.Cut(version, "\n")
	minor := strings.Join(strings.Split(version, ".")[:2], ".")
	if text := strings.Join(stages, "\nFROM "); !strings.Contains(text, "FROM golang:"+minor+" AS build") || !strings.Contains(text, "CGO_ENABLED=0") {
		t.Errorf("the build is not static, or not with Go %s", minor)
	}
}
