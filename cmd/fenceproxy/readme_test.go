package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// readmeCommand is a command of the README and what it says it prints.
type readmeCommand struct {
	line   int
	text   string
	answer []string // "…" stands for any lines
}

// notReplayed are commands that a test cannot run inside itself.
var notReplayed = regexp.MustCompile(`^(git clone|cd |go build|make )`)

// TestReadme replays every command of the README's console blocks, in one
// shell and in their order, and compares what they print. Ports are other
// ones, and the binary is built already.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands, files := parseReadme(t, string(text))
	dir := t.TempDir()
	var free []string
	for _, port := range []string{"8080", "9000", "9901", "9902", "8081", "9001", "9911"} {
		free = append(free, "127.0.0.1:"+port, freeAddress(t))
	}
	ports := strings.NewReplacer(free...)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(ports.Replace(content)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := exec.LookPath("fenceproxy") // TestMain puts it there
	if err != nil {
		t.Fatal(err)
	}

	var script strings.Builder
	fmt.Fprintf(&script, "set -m\ntrap 'kill -9 $(jobs -p) 2>/dev/null' EXIT\nexport FENCEPROXY_ADMIN=%s FENCEPROXY_SERVER=http://%s\n",
		ports.Replace("127.0.0.1:9901"), ports.Replace("127.0.0.1:9902"))
	for i, c := range commands {
		text := ports.Replace(c.text)
		for _, form := range []string{"go run ./cmd/fenceproxy", "./fenceproxy"} {
			text = strings.ReplaceAll(text, form, binary)
		}
		text = regexp.MustCompile(`^fenceproxy `).ReplaceAllLiteralString(text, binary+" ")
		fmt.Fprintf(&script, "echo '@@@ %d'\n%s\n", i, text)
		if m := regexp.MustCompile(`--listen ([0-9.]+):([0-9]+) &$`).FindStringSubmatch(text); m != nil {
			fmt.Fprintf(&script, "for n in $(seq 600); do (exec 3<>/dev/tcp/%s/%s) 2>/dev/null && break; sleep 0.05; done\n", m[1], m[2])
		}
	}
	cmd := exec.Command("bash", "-c", script.String())
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Logf("the shell: %v\n%s", err, log.String())
	}
	got := map[int][]string{}
	at := -1
	for _, line := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		if _, err := fmt.Sscanf(line, "@@@ %d", &at); err != nil && at >= 0 {
			got[at] = append(got[at], line)
		}
	}
	if at != len(commands)-1 {
		t.Errorf("only %d of %d commands were run\n%s", at+1, len(commands), log.String())
	}
	for i, c := range commands {
		if len(c.answer) > 0 && !printed(got[i], c.answer) {
			t.Errorf("README.md:%d: $ %s\nprints\n%s\nand the README says\n%s", c.line, c.text, strings.Join(got[i], "\n"), strings.Join(c.answer, "\n"))
		}
	}
	if t.Failed() {
		t.Log(log.String())
	}
}

// parseReadme returns the commands of the console blocks, and the files that
// YAML blocks name in their first line.
func parseReadme(t *testing.T, text string) (commands []readmeCommand, files map[string]string) {
	files = map[string]string{}
	block, file, indent := "", "", ""
	answers := 0
	for i, line := range strings.Split(text, "\n") {
		if mark, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			block, file = mark, ""
			indent = line[:strings.Index(line, "`")]
			continue
		}
		line = strings.TrimPrefix(line, indent)
		switch block {
		case "yaml":
			if name, ok := strings.CutPrefix(line, "# "); ok && file == "" && strings.HasSuffix(name, ".yaml") {
				file = name
			}
			if file != "" {
				files[file] += line + "\n"
			}
		case "console":
			if text, ok := strings.CutPrefix(line, "$ "); ok {
				if notReplayed.MatchString(text) {
					text = "true"
				}
				commands = append(commands, readmeCommand{line: i + 1, text: text})
			} else if n := len(commands); n > 0 {
				commands[n-1].answer = append(commands[n-1].answer, line)
				answers++
			}
		}
	}
	if len(commands) < 10 || answers < 8 || len(files) == 0 {
		t.Fatalf("found %d commands, %d lines of answers, %d files: the README or this test has changed its form", len(commands), answers, len(files))
	}
	return commands, files
}

// changing is what differs from run to run.
var changing = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|\b\d+\.\d+s\b`)

func printed(got, want []string) bool {
	norm := func(s string) string { return strings.TrimRight(changing.ReplaceAllString(s, "TIME"), " ") }
	for len(want) > 0 && want[0] != "…" {
		if len(got) == 0 || norm(got[0]) != norm(want[0]) {
			return false
		}
		got, want = got[1:], want[1:]
	}
	if len(want) == 0 {
		return len(got) == 0
	}
	for i := range len(got) + 1 {
		if printed(got[i:], want[1:]) {
			return true
		}
	}
	return false
}

// freeAddress is a loopback address on which nothing listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	addr, err := servertest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
