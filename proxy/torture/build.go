package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// BinaryVariable names a binary to test instead of one built from this module.
const BinaryVariable = "FENCEPROXY_TORTURE_BINARY"

// Binary is the proxy's, made when the first test of a process asks for it, and
// removed by Main.
var Binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fenceproxy-torture-")
	if err != nil {
		return "", err
	}
	made = dir
	return Build(dir)
})

var made string // the directory of Binary; "" for none

// Main is the TestMain of a package that uses Binary.
func Main(m *testing.M) {
	code := m.Run()
	if made != "" {
		if err := os.RemoveAll(made); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Build makes the fenceproxy binary in dir and returns its path. It is built
// with the race detector where the test is, so that a race in the proxy is
// found by whatever test meets it, see Proxy.Complaints.
func Build(dir string) (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		return path, nil
	}
	path := filepath.Join(dir, "fenceproxy")
	args := []string{"build", "-o", path}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "github.com/fenceproxy/fenceproxy/cmd/fenceproxy")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the proxy: %w\n%s", err, out)
	}
	return path, nil
}
