package suites

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// curl runs one command line of it against the proxy. What it prints ends with
// a line of the last answer's status, how many bytes were uploaded, and on how
// many connections.
func curl(t *testing.T, stdin []byte, args ...string) (body string, status, uploaded, connects int) {
	t.Helper()
	line := append([]string{"-q", "-sS", "--noproxy", "*", "--max-time", "30"}, args...)
	cmd := exec.Command(servertest.Find(t, "curl", "curl"), line...)
	cmd.Args = append(cmd.Args, "-w", "\n%{http_code} %{size_upload} %{num_connects}")
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, &stderr)
	}
	at := bytes.LastIndexByte(out, '\n')
	if _, err := fmt.Sscan(string(out[at+1:]), &status, &uploaded, &connects); err != nil {
		t.Fatalf("%s printed %q: %v", cmd, out, err)
	}
	return string(out[:at]), status, uploaded, connects
}

// TestCurl is curl in the ways that people use it.
func TestCurl(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	p := newProxy(t, a.addr)
	large := content()
	file := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(file, large, 0o600); err != nil {
		t.Fatal(err)
	}
	base := "http://" + p.Addr + "/things/"
	for _, upload := range []struct {
		name  string
		stdin []byte
		args  []string
	}{
		{"-T, Expect", nil, []string{"-T", file, "-H", "Expect: 100-continue"}},
		{"-T, no Expect", nil, []string{"-T", file, "-H", "Expect:"}},
		{"--data-binary", nil, []string{"-X", "PUT", "--data-binary", "@" + file}},
		{"chunked from stdin", large, []string{"-T", "-"}},
		{"chunked from stdin, no Expect", large, []string{"-T", "-", "-H", "Expect:"}},
		{"HTTP/1.0", nil, []string{"-0", "-T", file}},
	} {
		t.Run(upload.name, func(t *testing.T) {
			good := append(upload.args, "-H", "X-Fencing-Token: 5", base+"a")
			if body, status, _, _ := curl(t, upload.stdin, good...); status != 200 || body != toldOf(large) {
				t.Errorf("%d %q, want 200 %q", status, body, toldOf(large))
			}
			stale := append(upload.args, "-H", "X-Fencing-Token: 4", base+"a")
			body, status, uploaded, _ := curl(t, upload.stdin, stale...)
			var p struct{ Type, Highest string }
			if err := json.Unmarshal([]byte(body), &p); status != 409 || err != nil || p.Type != "urn:fenceproxy:problem:stale-token" || p.Highest != "5" {
				t.Errorf("%d %q", status, body)
			}
			if strings.HasSuffix(upload.name, ", Expect") && uploaded != 0 {
				t.Errorf("%d bytes were uploaded in vain", uploaded)
			}
			full := append(upload.args, "-H", "X-Fencing-Token: 5", base+"full")
			if body, status, _, _ := curl(t, upload.stdin, full...); status != 413 || body != "full" {
				t.Errorf("%d %q, want 413", status, body)
			}
		})
	}
	t.Run("HEAD", func(t *testing.T) {
		if head, status, _, _ := curl(t, nil, "-I", base+"head"); status != 200 || !strings.Contains(head, "Content-Length: 1234\r\n") {
			t.Errorf("%d %q", status, head)
		}
	})
	t.Run("kept after a refusal", func(t *testing.T) {
		// Two transfers, which it does one after the other on one connection.
		args := []string{"-o", os.DevNull, "-X", "DELETE", "-H", "X-Fencing-Token: 4", base + "a", "--next",
			"-sS", "--noproxy", "*", "-o", os.DevNull, "-X", "PUT", "-d", "x", "-H", "X-Fencing-Token: 5", base + "a"}
		if _, status, _, connects := curl(t, nil, args...); status != 200 || connects != 0 {
			t.Errorf("the write behind the refusal: %d, on %d new connections", status, connects)
		}
	})
	t.Run("-N", func(t *testing.T) { curlParts(t, a, base+"parts") })
}

// curlParts lets each part of an answer go when curl has printed the one before.
func curlParts(t *testing.T, a *api, url string) {
	cmd := exec.Command(servertest.Find(t, "curl", "curl"), "-q", "-sS", "--noproxy", "*", "-N", url)
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
	out := bufio.NewReader(stdout)
	a.next <- struct{}{} // of the head alone it prints nothing
	for _, want := range []string{"one", "two", "three"} {
		for !strings.HasSuffix(got.String(), want) {
			b, err := out.ReadByte()
			if err != nil {
				t.Fatalf("waiting for %q: %v behind %q", want, err, &got)
			}
			got.WriteByte(b)
		}
		a.next <- struct{}{}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
