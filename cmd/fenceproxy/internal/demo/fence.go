package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// fence is what stands in front of the API.
type fence struct {
	url    string       // where clients come in
	leases string       // where they ask for leases; "" where it lends none
	stop   func() error // ends it, and tells of an unclean end
}

// fencer puts a fence in front of upstream, with its state in dir; one that
// lends has leases.
type fencer func(ctx context.Context, self, upstream, dir string, lends bool) (fence, error)

// leaseKey is the resource key that the file has where the fence lends leases.
const leaseKey = "file"

// serve is a process with `fenceproxy serve`, the same that anybody runs.
func serve(ctx context.Context, self, upstream, dir string, lends bool) (f fence, err error) {
	args := []string{"serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "", "--data", dir}
	if lends {
		config := filepath.Join(dir, "fenceproxy.yaml")
		text := fmt.Sprintf("{listen: {address: 127.0.0.1:0}, admin: {address: \"\"}, upstream: {url: %q}, store: {embedded: {path: %q}},"+
			" leases: {address: 127.0.0.1:0}, rules: [{name: file, path: /file, key: %s}]}\n", upstream, filepath.Join(dir, "data"), leaseKey)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return f, err
		}
		args = []string{"serve", "--config", config}
	}
	cmd := command(ctx, self, args...)
	log, err := cmd.StderrPipe()
	if err != nil {
		return f, err
	}
	if err := cmd.Start(); err != nil {
		return f, fmt.Errorf("starting fenceproxy: %w", err)
	}
	lines := bufio.NewReader(log)
	listen, leases, said := ready(lines)
	if listen == "" {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return f, fmt.Errorf("fenceproxy did not start: %s", strings.TrimSpace(said))
	}
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(io.Discard, lines) }()
	f = fence{url: "http://" + listen, stop: func() error { return terminate(cmd, read) }}
	if lends {
		f.leases = "http://" + leases
	}
	return f, nil
}

// ready reads the log up to the line that says where clients come in. listen is
// empty where the log ends without, and said is all that was read.
func ready(log *bufio.Reader) (listen, leases, said string) {
	for {
		line, err := log.ReadString('\n')
		said += line
		var entry struct{ Msg, Listen, Leases string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "ready" {
			return entry.Listen, entry.Leases, said
		}
		if err != nil {
			return "", "", said
		}
	}
}

// terminate asks the proxy to stop: it ends with 0 when all that it admitted
// is over.
func terminate(cmd *exec.Cmd, read <-chan struct{}) error {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	<-read // Wait closes the pipe
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("fenceproxy did not stop as it should: %w", err)
	}
	return nil
}
