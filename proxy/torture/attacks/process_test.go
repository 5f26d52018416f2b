package attacks

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// program finds a program, also where Debian puts it and an ordinary user's
// PATH does not look. One that is missing fails the test: without it, nothing
// is shown.
func program(t *testing.T, name, pkg string) string {
	t.Helper()
	for _, candidate := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	t.Fatalf("%s is not here, and this test needs the real one: run make deps, or on Debian apt-get install %s", name, pkg)
	return ""
}

// start starts a server of this test's in the foreground, which is killed by
// its id when the test ends. Its standard input stays open until then. out
// gives what it says.
func start(t *testing.T, name string, args ...string) (out *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(name, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		stdin.Close()
		r.Close()
		if t.Failed() && complaints.Len() > 0 {
			t.Logf("%s says: %s", name, &complaints)
		}
	})
	_ = r.SetReadDeadline(time.Now().Add(patience))
	return bufio.NewReader(r)
}

// port is the address of a server that says its port in its first line.
func port(t *testing.T, out *bufio.Reader) string {
	t.Helper()
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not say its port: %v", err)
	}
	return "127.0.0.1:" + strings.TrimSpace(line)
}

// startNginx starts the nginx of testdata. It cannot say its port, and so gets
// one that was free a moment ago.
func startNginx(t *testing.T, dir string) (addr string) {
	t.Helper()
	text, err := os.ReadFile("testdata/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	if addr, err = torture.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "nginx.conf")
	conf := strings.NewReplacer("ADDRESS", addr, "DIR", dir).Replace(string(text))
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "error.log")
	start(t, program(t, "nginx", "nginx"), "-p", dir, "-c", file, "-e", log)
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return addr
		}
		if time.Now().After(end) {
			b, _ := os.ReadFile(log)
			t.Fatalf("nginx does not listen after %v: %s", patience, b)
		}
	}
}
