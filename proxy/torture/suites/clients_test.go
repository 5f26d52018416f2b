package suites

import (
	"bufio"
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// TestClients runs HTTP clients of several languages against the proxy, each
// through the same steps: large uploads of known and of unknown length, HEAD,
// an answer in parts that arrive before the next is sent, a large download, a
// refusal on a connection that lives on, refusals by the proxy and by the
// upstream while a large upload is under way. The client has to read each
// refusal, not just see its upload break. What it prints for each step is what
// is looked at; fresh and kept say on what connection a request went out.
func TestClients(t *testing.T) {
	node := servertest.Find(t, "node", "nodejs")
	for _, client := range []struct {
		name string
		args []string
	}{
		{"http.client", []string{servertest.Find(t, "python3", "python3"), "testdata/clients/http_client.py"}},
		{"requests", []string{withRequests(t), "testdata/clients/requests_session.py"}},
		{"node http", []string{node, "testdata/clients/node_http.mjs"}},
		{"node fetch", []string{node, "testdata/clients/node_fetch.mjs"}},
	} {
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			p := newProxy(t, a.addr)
			follow(t, a, exec.Command(client.args[0], append(client.args[1:], p.Addr)...))
		})
	}
}

// withRequests finds a Python that has requests: Debian's package is for
// Debian's own.
func withRequests(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import requests").Run() == nil {
			return python
		}
	}
	t.Fatal("no python3 with requests is here, and this test needs it: run make deps, or on Debian apt-get install python3-requests")
	return ""
}

// steps are what each client has to print.
func steps() string {
	whole, x := toldOf(content()), toldOf([]byte("x"))
	lines := []string{
		"upload 200 " + whole,
		"chunked 200 " + whole,
		"head 200 1234 0",
		"parts 200", "part one", "part two", "part three",
		"download 200 10485760",
		"refused 409 stale-token kept",
		"again 200 " + x + " kept",
	}
	for range 3 {
		lines = append(lines, "stale 409 stale-token", "again 200 "+x)
	}
	lines = append(lines, "full 413 full", "again 200 "+x)
	return strings.Join(lines, "\n") + "\n"
}

// follow runs a client, and lets the API go on with its answer in parts when
// the client has printed the part before.
func follow(t *testing.T, a *api, cmd *exec.Cmd) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	var got strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		stuck.Reset(patience)
		got.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "part") {
			a.next <- struct{}{}
		}
	}
	err = cmd.Wait()
	if want := steps(); err != nil || got.String() != want {
		t.Errorf("%s: %v\nprinted\n%s\nwant\n%s\n%s", cmd, err, &got, want, &stderr)
	}
}
