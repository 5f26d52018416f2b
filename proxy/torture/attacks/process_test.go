package attacks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// script runs a server that says its port, as long as the test lasts.
func script(t *testing.T, program, pkg string, args ...string) (addr string) {
	t.Helper()
	port := servertest.Says(t, exec.Command(servertest.Find(t, program, pkg), args...))
	return "127.0.0.1:" + strings.TrimSpace(port)
}

// startNginx starts the nginx of testdata, which cannot say its port.
func startNginx(t *testing.T, dir string) (addr string) {
	t.Helper()
	text, err := os.ReadFile("testdata/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	nginx, file := servertest.Find(t, "nginx", "nginx"), filepath.Join(dir, "nginx.conf")
	return servertest.Run(t, 1, func(addrs []string) *exec.Cmd {
		conf := strings.NewReplacer("ADDRESS", addrs[0], "DIR", dir).Replace(string(text))
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.Command(nginx, "-p", dir, "-c", file, "-e", "stderr")
	})[0]
}
