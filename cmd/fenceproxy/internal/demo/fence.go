package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
)

// fencer puts a fence in front of upstream, with its state in dir, and returns
// the URL where clients come in. stop ends it, and tells of an unclean end.
type fencer func(ctx context.Context, self, upstream, dir string) (url string, stop func() error, err error)

// serve is a process with `fenceproxy serve`, the same that anybody runs.
func serve(ctx context.Context, self, upstream, dir string) (string, func() error, error) {
	cmd := command(ctx, self, "serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "", "--data", dir)
	log, err := cmd.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("starting fenceproxy: %w", err)
	}
	lines := bufio.NewReader(log)
	addr, said := ready(lines)
	if addr == "" {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return "", nil, fmt.Errorf("fenceproxy did not start: %s", strings.TrimSpace(said))
	}
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(io.Discard, lines) }()
	return "http://" + addr, func() error { return terminate(cmd, read) }, nil
}

// ready reads the log up to the line that says where clients come in. addr is
// empty where the log ends without, and said is all that was read.
func ready(log *bufio.Reader) (addr, said string) {
	for {
		line, err := log.ReadString('\n')
		said += line
		var entry struct{ Msg, Listen string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "ready" {
			return entry.Listen, said
		}
		if err != nil {
			return "", said
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
